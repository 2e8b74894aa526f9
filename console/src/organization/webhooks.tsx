import { Badge, Button, Code, Group, Paper, Stack, Text, Textarea } from '@mantine/core';
import { useState } from 'react';
import { type Schemas, patch, post, remove } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { Act, Choices, Field, Secret, typed } from '../form.tsx';
import { count, RATINGS, Time } from '../format.tsx';
import { idsIn } from '../lab/fields.tsx';
import { Needs, useMe } from '../lab/needs.tsx';
import { Empty } from '../loading.tsx';
import { Paged } from '../paged.tsx';
import { Note, Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';

const EVERY_MS = 2_000;

type Webhook = Schemas['WebhookDto'];

type Attempt = Schemas['AttemptDto'];

type Delivery = Schemas['DeliveryDto'];

type Event = Webhook['events'][number];

/** What can be reported, and when. */
const EVENTS: Record<Event, string> = {
  'rating.changed': 'an event changed the rating of an identity',
  'score.crossed': 'a score fell below a threshold, or rose above one',
  'bad_status.changed': 'a BAD status was set or ended',
  'verification.changed': 'a verification was granted or revoked',
  'policy.promoted': 'a lens or a version of the model was promoted or rolled back',
  'access.denied_now': 'an identity lost the access that a policy would have granted',
  'action.withdrawn': 'an action was withdrawn',
  'action.reinstated': 'a withdrawn action counts again',
  'decision.would_differ': 'a withdrawal made a recorded decision one that would differ',
  'dispute.opened': 'a person disputes a statement',
  'dispute.answered': 'a dispute was answered, or has lapsed',
};

const pathOf = (webhookId: string) => `v1/webhooks/${encodeURIComponent(webhookId)}`;

/** The webhooks of an organization, which its own keys change; without one, those of the key's owner. */
export function Webhooks({ of }: { of?: string }) {
  const own = useMe().data?.organization;
  const owner = of ?? own ?? 'the operators';
  const mayChange = of === undefined || of === own;
  return (
    <Panel title="Webhooks">
      <Note>
        An address to which the service posts a signed message for each event that its owner chose. Here are those of{' '}
        {owner}.
      </Note>
      <Needs scope="webhooks:write" what="The list of webhooks">
        <Paged<Webhook>
          path="v1/webhooks"
          parameters={of === undefined ? {} : { tris_org: of }}
          field="webhooks"
          what="webhooks"
          every={EVERY_MS}
        >
          {(webhooks) =>
            webhooks.length === 0 ? (
              <Empty>There is no webhook yet.</Empty>
            ) : (
              webhooks.map((webhook) => <Card key={webhook.webhook_id} webhook={webhook} mayChange={mayChange} />)
            )
          }
        </Paged>
        {mayChange ? <Create /> : <Note>Only its own keys change them.</Note>}
      </Needs>
    </Panel>
  );
}

function Card({ webhook, mayChange }: { webhook: Webhook; mayChange: boolean }) {
  const [isShown, show] = useState(false);
  const { webhook_id, url, events, policy_id, filter, status, disabled_reason, pending } = webhook;
  const address = url ?? webhook_id;
  const isActive = status === 'active';
  const path = pathOf(webhook_id);
  const limits = [
    policy_id,
    filter.tris_ids && `only ${filter.tris_ids.join(', ')}`,
    filter.ratings && `to ${filter.ratings.join(', ')}`,
    filter.score_below !== null && `below ${filter.score_below}`,
    filter.score_above !== null && `above ${filter.score_above}`,
  ].filter(Boolean);
  return (
    <Paper component="article" withBorder p="sm" aria-label={address}>
      <Stack gap="xs">
        <Group gap="xs" justify="space-between">
          <Text fw={500} style={{ overflowWrap: 'anywhere' }}>
            {url ?? 'The address was deleted'}
          </Text>
          <Badge color={isActive ? 'green' : 'gray'}>
            {disabled_reason === null ? status : `disabled: ${disabled_reason}`}
          </Badge>
        </Group>
        <Note>
          {events.join(', ')}
          {limits.length > 0 && `; ${limits.join(', ')}`}. {count(pending)} waiting. <Code>{webhook_id}</Code>
        </Note>
        {mayChange && (
          <Group gap="xs">
            <Act
              label="Send a test"
              describes={`to ${address}`}
              act={() => post<Attempt>(`${path}/test`, undefined)}
              outcome={(attempt) =>
                `The test was ${attempt.delivered ? 'delivered' : 'not delivered'}: ${outcomeOf(attempt)}.`
              }
            />
            <Button aria-expanded={isShown} aria-label={`Deliveries to ${address}`} onClick={() => show(!isShown)}>
              Deliveries
            </Button>
            <Act
              label={isActive ? 'Pause' : 'Enable'}
              describes={address}
              act={() => patch(path, { status: isActive ? 'disabled' : 'active' })}
            />
            <Confirmed
              label="New secret"
              describes={`of ${address}`}
              title="Replace the secret"
              verb="Replace it"
              act={() => post<Schemas['RotatedSecretDto']>(`${path}/rotate-secret`, undefined)}
              outcome={({ secret }) => <Secret value={secret}>This is the new secret of {address}.</Secret>}
            >
              <Text size="sm">For a day, messages are signed with the old secret, too.</Text>
            </Confirmed>
            <Confirmed
              label="Delete"
              describes={address}
              title="Delete a webhook"
              verb="Delete the webhook"
              act={() => remove(path)}
            >
              <Text size="sm">
                Nothing is sent to {address} any more. What waits, and the list of its deliveries, is deleted with it.
              </Text>
            </Confirmed>
          </Group>
        )}
        {isShown && <Deliveries path={`${path}/deliveries`} />}
      </Stack>
    </Paper>
  );
}

const outcomeOf = ({ status, failure, ms }: Pick<Attempt, 'status' | 'failure' | 'ms'>): string =>
  `${status === null ? (failure ?? 'no answer') : `answered ${status}`} in ${count(ms)} ms`;

const COLOURS: Record<Delivery['status'], string> = { delivered: 'green', pending: 'gray', failed: 'red' };

function Deliveries({ path }: { path: string }) {
  return (
    <Paged<Delivery> path={path} field="deliveries" what="deliveries" every={EVERY_MS}>
      {(deliveries) => (
        <Rows
          caption="Deliveries"
          isShown
          empty="There was no delivery in the last seven days."
          head={['Event', 'Identity', 'Status', 'Attempts', 'Last attempt', 'Next attempt', 'Created', 'Actions']}
          rows={deliveries.map(
            ({ delivery_id, event, tris_id, status, attempts, created_at, last_attempt, next_attempt_at }) => [
              <span key={delivery_id}>{event}</span>,
              tris_id ?? '',
              <Badge key="status" miw="max-content" color={COLOURS[status]}>
                {status}
              </Badge>,
              count(attempts),
              last_attempt ? outcomeOf(last_attempt) : 'none yet',
              next_attempt_at === null ? 'none' : <Time key="next" value={next_attempt_at} />,
              <Time key="since" value={created_at} />,
              status !== 'pending' && (
                <Act
                  key="again"
                  label="Redeliver"
                  describes={delivery_id}
                  act={() => post(`${path}/${encodeURIComponent(delivery_id)}/redeliver`, undefined)}
                />
              ),
            ],
          )}
        />
      )}
    </Paged>
  );
}

function Create() {
  return (
    <Group>
      <Confirmed
        label="Create a webhook"
        title="Create a webhook"
        verb="Create"
        act={(form) => post<Schemas['CreatedWebhookDto']>('v1/webhooks', webhookOf(form))}
        outcome={({ url, secret }) => (
          <Secret value={secret}>{url} is created. With this secret its receiver checks the signatures.</Secret>
        )}
      >
        <Fields />
      </Confirmed>
    </Group>
  );
}

/** The fields of a new webhook: those of its filter that its events use. */
function Fields() {
  const [events, setEvents] = useState<string[]>([]);
  return (
    <>
      <Field
        label="Address"
        description="An https address that leads to a public host."
        name="url"
        type="url"
        required
        placeholder="https://lender.example/hooks/credence"
        data-autofocus
      />
      <Choices legend="Events" name="events" values={Object.entries(EVENTS)} onChange={setEvents} />
      {events.includes('rating.changed') && (
        <Choices legend="Only these new ratings" name="ratings" values={RATINGS.map(([name]) => name)} />
      )}
      {events.includes('score.crossed') && (
        <Group gap="xs" grow>
          <Field label="Falls below" name="score_below" type="number" min={1} max={100} step="any" />
          <Field label="Rises above" name="score_above" type="number" min={1} max={100} step="any" />
        </Group>
      )}
      {events.includes('access.denied_now') && (
        <Field label="Access policy" name="policy_id" required placeholder="AP_Lenders_V1" />
      )}
      <Textarea
        label="Only these identities"
        description="TRIS ids, with spaces or lines between; without any, all identities."
        name="tris_ids"
        required={events.includes('access.denied_now')}
        withAsterisk={false}
        rows={2}
        spellCheck={false}
      />
    </>
  );
}

function webhookOf(form: FormData) {
  const number = (name: string) => (typed(form, name) === undefined ? undefined : Number(typed(form, name)));
  const tris_ids = idsIn(typed(form, 'tris_ids') ?? '');
  const ratings = form.getAll('ratings');
  const filter = {
    ...(tris_ids.length > 0 && { tris_ids }),
    ...(ratings.length > 0 && { ratings }),
    score_below: number('score_below'),
    score_above: number('score_above'),
  };
  return { url: typed(form, 'url'), events: form.getAll('events'), policy_id: typed(form, 'policy_id'), filter };
}
