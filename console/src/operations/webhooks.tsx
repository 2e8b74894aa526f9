import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { type Schemas, get, post } from '../api.ts';
import { count, Time } from '../format.tsx';
import { Failure, Loaded } from '../loading.tsx';
import { Table } from './table.tsx';

const EVERY_MS = 2_000;

type Webhook = Schemas['WebhookDto'];

type Attempt = Schemas['AttemptDto'];

type Delivery = Schemas['DeliveryDto'];

/** The webhooks of the key's organization, or of the operators. */
export function Webhooks() {
  const [shown, show] = useState<string | null>(null);
  const webhooks = useQuery({
    queryKey: ['operations', 'webhooks'],
    queryFn: ({ signal }) => get<Schemas['WebhooksDto']>('v1/webhooks', { limit: 100 }, signal),
    refetchInterval: EVERY_MS,
  });
  return (
    <section aria-labelledby="webhooks-title">
      <h2 id="webhooks-title">Webhooks</h2>
      <Loaded query={webhooks} what="the webhooks">
        {({ webhooks: list }) =>
          list.length === 0 ? (
            <p>There is no webhook that this key may see.</p>
          ) : (
            <Table label="List of webhooks" columns={['Address', 'Events', 'Status', 'Pending', 'Actions']}>
              {list.map((webhook) => (
                <Fragment key={webhook.webhook_id}>
                  <Row webhook={webhook} isShown={shown === webhook.webhook_id} show={show} />
                  {shown === webhook.webhook_id && (
                    <tr className="selected">
                      <td colSpan={5}>
                        <Deliveries webhookId={webhook.webhook_id} />
                      </td>
                    </tr>
                  )}
                </Fragment>
              ))}
            </Table>
          )
        }
      </Loaded>
    </section>
  );
}

function Row(props: { webhook: Webhook; isShown: boolean; show: (webhookId: string | null) => void }) {
  const { webhook, isShown, show } = props;
  const { webhook_id, url, events, status, disabled_reason, pending } = webhook;
  const address = url ?? webhook_id;
  const test = useMutation({
    mutationFn: () => post<Attempt>(`v1/webhooks/${encodeURIComponent(webhook_id)}/test`, undefined),
  });
  return (
    <tr>
      <th scope="row">
        {url ?? 'deleted'}
        <br />
        <small>
          <code>{webhook_id}</code>
        </small>
      </th>
      <td>{events.join(', ')}</td>
      <td>
        {status}
        {disabled_reason !== null && `: ${disabled_reason}`}
      </td>
      <td>{count(pending)}</td>
      <td>
        <p className="actions">
          <button
            type="button"
            aria-label={`Send a test to ${address}`}
            disabled={test.isPending}
            onClick={() => test.mutate()}
          >
            Send a test
          </button>
          <button
            type="button"
            aria-expanded={isShown}
            aria-label={`Deliveries to ${address}`}
            onClick={() => show(isShown ? null : webhook_id)}
          >
            Deliveries
          </button>
        </p>
        {test.data && <p role="status">{outcomeOf(test.data)}</p>}
        {test.error && <Failure error={test.error} />}
      </td>
    </tr>
  );
}

function outcomeOf({ delivered, status, failure, ms }: Attempt): string {
  const answer = status === null ? (failure ?? 'no answer') : `answered ${status}`;
  return `The test was ${delivered ? 'delivered' : 'not delivered'}: ${answer} in ${count(ms)} ms.`;
}

function Deliveries({ webhookId }: { webhookId: string }) {
  const path = `v1/webhooks/${encodeURIComponent(webhookId)}/deliveries`;
  const deliveries = useQuery({
    queryKey: ['operations', 'deliveries', webhookId],
    queryFn: ({ signal }) => get<Schemas['DeliveriesDto']>(path, { limit: 50 }, signal),
    refetchInterval: EVERY_MS,
  });
  return (
    <Loaded query={deliveries} what="the deliveries">
      {({ deliveries: list }) =>
        list.length === 0 ? (
          <p>There was no delivery in the last seven days.</p>
        ) : (
          <Table label="Deliveries" columns={['Event', 'Identity', 'Status', 'Attempts', 'Since', 'Actions']}>
            {list.map((delivery) => (
              <DeliveryRow key={delivery.delivery_id} delivery={delivery} path={path} />
            ))}
          </Table>
        )
      }
    </Loaded>
  );
}

function DeliveryRow({ delivery, path }: { delivery: Delivery; path: string }) {
  const { delivery_id, event, tris_id, status, attempts, created_at } = delivery;
  const client = useQueryClient();
  const again = useMutation({
    mutationFn: () => post(`${path}/${encodeURIComponent(delivery_id)}/redeliver`, undefined),
    onSuccess: () => client.invalidateQueries({ queryKey: ['operations', 'deliveries'] }),
  });
  return (
    <tr>
      <th scope="row">{event}</th>
      <td>{tris_id ?? ''}</td>
      <td>{status}</td>
      <td>{count(attempts)}</td>
      <td>
        <Time value={created_at} />
      </td>
      <td>
        {status !== 'pending' && (
          <button
            type="button"
            aria-label={`Redeliver ${delivery_id}`}
            disabled={again.isPending}
            onClick={() => again.mutate()}
          >
            Redeliver
          </button>
        )}
        {again.error && <Failure error={again.error} />}
      </td>
    </tr>
  );
}
