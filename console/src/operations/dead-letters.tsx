import { useQuery } from '@tanstack/react-query';
import { type Schemas, get, post } from '../api.ts';
import { Loaded } from '../loading.tsx';
import { hrefOf } from '../place.ts';
import { Confirmed } from './confirmed.tsx';
import { Table } from './table.tsx';

const EVERY_MS = 2_000;

/** The open dead letters. */
export function DeadLetters() {
  const letters = useQuery({
    queryKey: ['operations', 'dead-letters'],
    queryFn: ({ signal }) => get<Schemas['DeadLettersDto']>('v1/dead-letters', {}, signal),
    // The read models apply an acknowledgement shortly after it is recorded.
    refetchInterval: EVERY_MS,
  });
  return (
    <section aria-labelledby="letters-title">
      <h2 id="letters-title">Dead letters</h2>
      <Loaded query={letters} what="the dead letters">
        {({ dead_letters, next_cursor }) =>
          dead_letters.length === 0 ? (
            <p>Every event can be decoded, or is acknowledged.</p>
          ) : (
            <>
              <p>
                Events that cannot be decoded. Their identities are incomplete and get no access until the events are
                acknowledged{next_cursor === null ? '' : '; the oldest 100'}.
              </p>
              <Table label="List of dead letters" columns={['Event', 'Identity', 'Reason', 'Actions']}>
                {dead_letters.map(({ event_id, event_type, tris_id, reason }) => (
                  <tr key={event_id}>
                    <th scope="row">
                      {event_type}
                      <br />
                      <small>
                        <code>{event_id}</code>
                      </small>
                    </th>
                    <td>{tris_id === null ? 'unknown' : <a href={hrefOf('identity', tris_id)}>{tris_id}</a>}</td>
                    <td>{reason}</td>
                    <td>
                      <Confirmed
                        label="Acknowledge"
                        describes={event_id}
                        title="Acknowledge a dead letter"
                        verb="Acknowledge for good"
                        act={(form) =>
                          post(`v1/dead-letters/${event_id}/acknowledge`, {
                            reason_code: String(form.get('reason')).trim(),
                          })
                        }
                      >
                        <p>
                          Scores continue without this event for ever, and {tris_id ?? 'its identity'} no longer counts
                          as incomplete because of it. This cannot be undone.
                        </p>
                        <label>
                          Reason, as a code
                          <input name="reason" required pattern="[a-z][a-z0-9_]*" placeholder="lost_for_good" />
                        </label>
                      </Confirmed>
                    </td>
                  </tr>
                ))}
              </Table>
            </>
          )
        }
      </Loaded>
    </section>
  );
}
