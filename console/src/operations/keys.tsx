import { Badge, Button, Checkbox, Code, Fieldset, Group, Stack, Table, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type Schemas, get, post, remove } from '../api.ts';
import { Loaded } from '../loading.tsx';
import { Panel } from '../panel.tsx';
import { DataTable } from '../table.tsx';
import { Confirmed } from './confirmed.tsx';
import type { Me } from './operations-view.tsx';

/** The API keys, without their secrets. */
export function Keys({ me }: { me: Me }) {
  const keys = useQuery({
    queryKey: ['operations', 'keys'],
    queryFn: ({ signal }) => get<Schemas['KeysDto']>('v1/ops/keys', {}, signal),
  });
  return (
    <Panel title="API keys">
      <Loaded query={keys} what="the keys">
        {({ keys: list, read_only }) => (
          <>
            <DataTable label="List of keys" columns={['Key', 'Scopes', 'Organization', 'Actions']}>
              {list.map((key) => (
                <Table.Tr key={key.key_id}>
                  <Table.Th scope="row">{key.key_id}</Table.Th>
                  <Table.Td>
                    <Group gap={4}>
                      {key.scopes.map((scope) => (
                        <Badge key={scope}>{scope}</Badge>
                      ))}
                    </Group>
                  </Table.Td>
                  <Table.Td>{key.organization ?? 'none'}</Table.Td>
                  <Table.Td>
                    {key.key_id === me.key_id ? (
                      <Text size="sm" c="dimmed">
                        the key of this tab
                      </Text>
                    ) : key.is_development ? (
                      <Text size="sm" c="dimmed">
                        the development key
                      </Text>
                    ) : (
                      read_only === null && <Delete keyId={key.key_id} />
                    )}
                  </Table.Td>
                </Table.Tr>
              ))}
            </DataTable>
            {read_only === null ? <Create me={me} /> : <Text size="sm">Keys cannot be changed here. {read_only}</Text>}
          </>
        )}
      </Loaded>
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

function Create({ me }: { me: Me }) {
  return (
    <Group>
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
          <Stack gap="sm" role="status" align="flex-start">
            <Text size="sm">{key_id} is created. This is the key; it is shown only now, and stored nowhere:</Text>
            <Code data-testid="secret">{key}</Code>
            {/* Absent on a page without https. */}
            {navigator.clipboard && <Button onClick={() => void navigator.clipboard.writeText(key)}>Copy</Button>}
          </Stack>
        )}
      >
        <TextInput
          label="Id, which events record"
          name="key_id"
          required
          withAsterisk={false}
          maxLength={64}
          pattern="[A-Za-z0-9._\-]+"
          autoComplete="off"
        />
        <TextInput
          label="Organization it acts for, if any"
          name="organization"
          placeholder="tris:lendco"
          autoComplete="off"
          spellCheck={false}
        />
        <Fieldset legend="Scopes">
          <Stack gap="xs">
            {[...new Set<Me['scopes'][number]>(['reads', ...me.scopes])].map((scope) => (
              <Checkbox key={scope} name="scopes" value={scope} label={scope} />
            ))}
          </Stack>
        </Fieldset>
      </Confirmed>
    </Group>
  );
}
