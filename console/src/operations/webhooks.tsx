import { Badge, Button, Code, Group, Table, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { type Schemas, get, post } from '../api.ts';
import { count, Time } from '../format.tsx';
import { Empty, Failure, Loaded } from '../loading.tsx';
import { Panel } from '../panel.tsx';
import { DataTable } from '../table.tsx';

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
    <Panel title="Webhooks">
      <Loaded query={webhooks} what="the webhooks">
        {({ webhooks: list }) =>
          list.length === 0 ? (
            <Empty>There is no webhook that this key may see.</Empty>
          ) : (
            <DataTable label="List of webhooks" columns={['Address', 'Events', 'Status', 'Pending', 'Actions']}>
              {list.map((webhook) => (
                <Fragment key={webhook.webhook_id}>
                  <Row webhook={webhook} isShown={shown === webhook.webhook_id} show={show} />
                  {shown === webhook.webhook_id && (
                    <Table.Tr className="selected">
                      <Table.Td colSpan={5}>
                        <Deliveries webhookId={webhook.webhook_id} />
                      </Table.Td>
                    </Table.Tr>
                  )}
                </Fragment>
              ))}
            </DataTable>
          )
        }
      </Loaded>
    </Panel>
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
    <Table.Tr>
      <Table.Th scope="row">
        {url ?? 'deleted'}
        <br />
        <Code>{webhook_id}</Code>
      </Table.Th>
      <Table.Td>{events.join(', ')}</Table.Td>
      <Table.Td>
        <Badge color={status === 'active' ? 'green' : 'gray'}>{status}</Badge>
        {disabled_reason !== null && `: ${disabled_reason}`}
      </Table.Td>
      <Table.Td>{count(pending)}</Table.Td>
      <Table.Td>
        <Group gap="xs" wrap="nowrap">
          <Button aria-label={`Send a test to ${address}`} disabled={test.isPending} onClick={() => test.mutate()}>
            Send a test
          </Button>
          <Button
            aria-expanded={isShown}
            aria-label={`Deliveries to ${address}`}
            onClick={() => show(isShown ? null : webhook_id)}
          >
            Deliveries
          </Button>
        </Group>
        {test.data && (
          <Text size="sm" role="status">
            {outcomeOf(test.data)}
          </Text>
        )}
        {test.error && <Failure error={test.error} />}
      </Table.Td>
    </Table.Tr>
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
          <Empty>There was no delivery in the last seven days.</Empty>
        ) : (
          <DataTable label="Deliveries" columns={['Event', 'Identity', 'Status', 'Attempts', 'Since', 'Actions']}>
            {list.map((delivery) => (
              <DeliveryRow key={delivery.delivery_id} delivery={delivery} path={path} />
            ))}
          </DataTable>
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
    <Table.Tr>
      <Table.Th scope="row">{event}</Table.Th>
      <Table.Td>{tris_id ?? ''}</Table.Td>
      <Table.Td>
        <Badge color={status === 'delivered' ? 'green' : status === 'pending' ? 'gray' : 'red'}>{status}</Badge>
      </Table.Td>
      <Table.Td>{count(attempts)}</Table.Td>
      <Table.Td>
        <Time value={created_at} />
      </Table.Td>
      <Table.Td>
        {status !== 'pending' && (
          <Button aria-label={`Redeliver ${delivery_id}`} disabled={again.isPending} onClick={() => again.mutate()}>
            Redeliver
          </Button>
        )}
        {again.error && <Failure error={again.error} />}
      </Table.Td>
    </Table.Tr>
  );
}
