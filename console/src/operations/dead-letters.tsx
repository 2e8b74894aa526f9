import { Anchor, Code, Table, Text } from '@mantine/core';
import { post } from '../api.ts';
import { Field, typed } from '../form.tsx';
import { Empty, Loaded } from '../loading.tsx';
import { Panel } from '../panel.tsx';
import { hrefOf } from '../place.ts';
import { DataTable } from '../table.tsx';
import { Confirmed } from '../confirmed.tsx';
import { useGet } from '../use-get.ts';

const EVERY_MS = 2_000;

/** The open dead letters. */
export function DeadLetters() {
  // The read models apply an acknowledgement shortly after it is recorded.
  const letters = useGet<'DeadLettersDto'>('v1/dead-letters', {}, { refetchInterval: EVERY_MS });
  return (
    <Panel title="Dead letters">
      <Loaded query={letters} what="the dead letters">
        {({ dead_letters, next_cursor }) =>
          dead_letters.length === 0 ? (
            <Empty>Every event can be decoded, or is acknowledged.</Empty>
          ) : (
            <>
              <Text size="sm">
                Events that cannot be decoded. Their identities are incomplete and get no access until the events are
                acknowledged{next_cursor === null ? '' : '; the oldest 100'}.
              </Text>
              <DataTable label="List of dead letters" columns={['Event', 'Identity', 'Reason', 'Actions']}>
                {dead_letters.map(({ event_id, event_type, tris_id, reason }) => (
                  <Table.Tr key={event_id}>
                    <Table.Th scope="row">
                      {event_type}
                      <br />
                      <Code>{event_id}</Code>
                    </Table.Th>
                    <Table.Td>
                      {tris_id === null ? 'unknown' : <Anchor href={hrefOf('identity', tris_id)}>{tris_id}</Anchor>}
                    </Table.Td>
                    <Table.Td>{reason}</Table.Td>
                    <Table.Td>
                      <Confirmed
                        label="Acknowledge"
                        describes={event_id}
                        title="Acknowledge a dead letter"
                        verb="Acknowledge for good"
                        act={(form) =>
                          post(`v1/dead-letters/${event_id}/acknowledge`, {
                            reason_code: typed(form, 'reason'),
                          })
                        }
                      >
                        <Text size="sm">
                          Scores continue without this event for ever, and {tris_id ?? 'its identity'} no longer counts
                          as incomplete because of it. This cannot be undone.
                        </Text>
                        <Field
                          label="Reason, as a code"
                          name="reason"
                          required
                          pattern="[a-z][a-z0-9_]*"
                          placeholder="lost_for_good"
                        />
                      </Confirmed>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </DataTable>
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}
