import { Badge, Group, Text } from '@mantine/core';
import { type Schemas, post, remove } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { Choices, Field, Secret, typed } from '../form.tsx';
import { type Me, Needs, useMay, useMe } from '../lab/needs.tsx';
import { Loaded } from '../loading.tsx';
import { Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';
import { useGet } from '../queries.ts';

/** The API keys, without their secrets: all, or those of an organization. */
export function Keys({ of }: { of?: string }) {
  const me = useMe().data;
  const keys = useGet<'KeysDto'>('v1/ops/keys', {}, { enabled: useMay('ops') });
  return (
    <Panel title="API keys">
      <Needs scope="ops" what="The list of keys">
        <Loaded query={keys} what="the keys">
          {({ keys: list, read_only }) => (
            <>
              <Rows
                caption="List of keys"
                empty="There is no key."
                head={['Key', 'Scopes', 'Organization', 'Actions']}
                rows={list
                  .filter(({ organization }) => of === undefined || organization === of)
                  .map(({ key_id, scopes, organization, is_development }) => [
                    key_id,
                    <Group key="scopes" gap={4}>
                      {scopes.map((scope) => (
                        <Badge key={scope}>{scope}</Badge>
                      ))}
                    </Group>,
                    organization ?? 'none',
                    key_id === me!.key_id || is_development ? (
                      <Text key="which" size="sm" c="dimmed">
                        {is_development ? 'the development key' : 'the key of this tab'}
                      </Text>
                    ) : (
                      read_only === null && <Delete key="delete" keyId={key_id} />
                    ),
                  ])}
              />
              {read_only === null ? (
                <Create me={me!} of={of} />
              ) : (
                <Text size="sm">Keys cannot be changed here. {read_only}</Text>
              )}
            </>
          )}
        </Loaded>
      </Needs>
    </Panel>
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
      <Text size="sm">Requests with this key are refused at once. It cannot be brought back.</Text>
    </Confirmed>
  );
}

function Create({ me, of }: { me: Me; of: string | undefined }) {
  return (
    <Group>
      <Confirmed
        label="Create a key"
        title="Create a key"
        verb="Create"
        act={(form) =>
          post<Schemas['CreatedKeyDto']>('v1/ops/keys', {
            key_id: typed(form, 'key_id'),
            scopes: form.getAll('scopes'),
            organization: typed(form, 'organization'),
          })
        }
        outcome={({ key_id, key }) => (
          <Secret value={key}>{key_id} is created. This is the key, stored nowhere.</Secret>
        )}
      >
        <Field label="Id, which events record" name="key_id" required maxLength={64} pattern="[A-Za-z0-9._\-]+" />
        <Field
          label="Organization it acts for, if any"
          name="organization"
          defaultValue={of}
          placeholder="tris:lendco"
        />
        <Choices legend="Scopes" name="scopes" values={[...new Set(['reads', ...me.scopes])]} />
      </Confirmed>
    </Group>
  );
}
