import { useQuery } from '@tanstack/react-query';
import { type Schemas, get, post, remove } from '../api.ts';
import { Loaded } from '../loading.tsx';
import { Confirmed } from './confirmed.tsx';
import type { Me } from './operations-view.tsx';
import { Table } from './table.tsx';

/** The API keys, without their secrets. */
export function Keys({ me }: { me: Me }) {
  const keys = useQuery({
    queryKey: ['operations', 'keys'],
    queryFn: ({ signal }) => get<Schemas['KeysDto']>('v1/ops/keys', {}, signal),
  });
  return (
    <section aria-labelledby="keys-title">
      <h2 id="keys-title">API keys</h2>
      <Loaded query={keys} what="the keys">
        {({ keys: list, read_only }) => (
          <>
            <Table label="List of keys" columns={['Key', 'Scopes', 'Organization', 'Actions']}>
              {list.map((key) => (
                <tr key={key.key_id}>
                  <th scope="row">{key.key_id}</th>
                  <td>{key.scopes.join(', ')}</td>
                  <td>{key.organization ?? 'none'}</td>
                  <td>
                    {key.key_id === me.key_id ? (
                      <small>the key of this tab</small>
                    ) : key.is_development ? (
                      <small>the development key</small>
                    ) : (
                      read_only === null && <Delete keyId={key.key_id} />
                    )}
                  </td>
                </tr>
              ))}
            </Table>
            {read_only === null ? <Create me={me} /> : <p>Keys cannot be changed here. {read_only}</p>}
          </>
        )}
      </Loaded>
    </section>
  );
}

function Delete({ keyId }: { keyId: string }) {
  return (
    <Confirmed
      label="Delete"
      describes={keyId}
      title={`Delete the key ${keyId}`}
      verb={`Delete ${keyId}`}
      act={() => remove(`v1/ops/keys/${encodeURIComponent(keyId)}`)}
    >
      <p>Requests with this key are refused at once. It cannot be brought back.</p>
    </Confirmed>
  );
}

function Create({ me }: { me: Me }) {
  return (
    <p>
      <Confirmed
        label="Create a key"
        title="Create a key"
        verb="Create"
        act={(form) => {
          const organization = String(form.get('organization')).trim();
          return post<Schemas['CreatedKeyDto']>('v1/ops/keys', {
            key_id: String(form.get('key_id')).trim(),
            scopes: form.getAll('scopes'),
            ...(organization !== '' && { organization }),
          });
        }}
        outcome={({ key_id, key }) => (
          <div role="status">
            <p>{key_id} is created. This is the key; it is shown only now, and stored nowhere:</p>
            <p>
              <code data-testid="secret">{key}</code>
            </p>
            {/* Absent on a page without https. */}
            {navigator.clipboard && (
              <p>
                <button type="button" onClick={() => void navigator.clipboard.writeText(key)}>
                  Copy
                </button>
              </p>
            )}
          </div>
        )}
      >
        <label>
          Id, which events record
          <input name="key_id" required maxLength={64} pattern="[A-Za-z0-9._\-]+" autoComplete="off" />
        </label>
        <label>
          Organization it acts for, if any
          <input name="organization" placeholder="tris:lendco" autoComplete="off" spellCheck={false} />
        </label>
        <fieldset>
          <legend>Scopes</legend>
          {[...new Set<Me['scopes'][number]>(['reads', ...me.scopes])].map((scope) => (
            <p key={scope}>
              <label>
                <input type="checkbox" name="scopes" value={scope} /> {scope}
              </label>
            </p>
          ))}
        </fieldset>
      </Confirmed>
    </p>
  );
}
