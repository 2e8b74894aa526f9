import { Code, Text } from '@mantine/core';
import { post } from '../api.ts';
import { Field, typed } from '../form.tsx';
import { linkTo } from '../format.tsx';
import { Loaded } from '../loading.tsx';
import { Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';
import { Confirmed } from '../confirmed.tsx';
import { useGet } from '../queries.ts';

const EVERY_MS = 2_000;

/** The open dead letters. */
export function DeadLetters() {
  // The read models apply an acknowledgement shortly after it is recorded.
  const letters = useGet<'DeadLettersDto'>('v1/dead-letters', {}, { refetchInterval: EVERY_MS });
  return (
    <Panel title="Dead letters">
      <Loaded query={letters} what="the dead letters">
        {({ dead_letters, next_cursor }) => (
          <>
            {dead_letters.length > 0 && (
              <Text size="sm">
                Events that cannot be decoded. Their identities are incomplete and get no access until the events are
                acknowledged{next_cursor === null ? '' : '; the oldest 100'}.
              </Text>
            )}
            <Rows
              caption="List of dead letters"
              empty="Every event can be decoded, or is acknowledged."
              head={['Event', 'Identity', 'Reason', 'Actions']}
              rows={dead_letters.map(({ event_id, event_type, tris_id, reason }) => [
                <span key={event_id}>
                  {event_type} <Code>{event_id}</Code>
                </span>,
                tris_id === null ? 'unknown' : linkTo('identity', tris_id),
                reason,
                <Acknowledge key="acknowledge" eventId={event_id} about={tris_id ?? 'its identity'} />,
              ])}
            />
          </>
        )}
      </Loaded>
    </Panel>
  );
}

function Acknowledge({ eventId, about }: { eventId: string; about: string }) {
  return (
    <Confirmed
      label="Acknowledge"
      describes={eventId}
      title="Acknowledge a dead letter"
      verb="Acknowledge for good"
      act={(form) => post(`v1/dead-letters/${eventId}/acknowledge`, { reason_code: typed(form, 'reason') })}
    >
      <Text size="sm">
        Scores continue without this event for ever, and {about} no longer counts as incomplete because of it. This
        cannot be undone.
      </Text>
      <Field label="Reason, as a code" name="reason" required pattern="[a-z][a-z0-9_]*" placeholder="lost_for_good" />
    </Confirmed>
  );
}
