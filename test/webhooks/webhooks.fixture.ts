import { Webhook } from 'standardwebhooks';
import { SCOPES } from '../../src/credentials/caller.js';
import { Sender } from '../../src/features/webhooks/sender.js';
import { eventually } from '../contracts/harness.js';
import { send } from '../http/client.js';
import { type Service, as, relay, startServiceWithKeys } from '../policies/service.fixture.js';
import { Receiver } from './receiver.js';

/** The service with a receiver of its webhooks, for the suites of this folder that import it. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'lendco', scopes: SCOPES, organization: 'tris:lendco' },
  { id: 'other', scopes: SCOPES, organization: 'tris:other' },
  { id: 'busy', scopes: SCOPES, organization: 'tris:busy' },
  { id: 'unbound', scopes: ['webhooks:write'] },
];
export const [OPERATOR, LENDCO, OTHER, BUSY] = [as('operator'), as('lendco'), as('other'), as('busy')];
/** Without an organization, and without `ops`. */
export const UNBOUND = as('unbound');
export const ALL = ['rating.changed', 'score.crossed', 'verification.changed', 'bad_status.changed', 'policy.promoted'];

/** The service's clock is ahead by so many ms. */
export const clock = { ahead: 0 };
export let service: Service;
export let sender: Sender;
export const receiver = new Receiver();
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS, { CREDENCE_WEBHOOK_LOOPBACK: 'on' }, () => Date.now() + clock.ahead);
  sender = service.app.get(Sender, { strict: false });
  await receiver.start();
});
afterAll(async () => {
  await service.close();
  await receiver.stop();
});
beforeEach(() => {
  receiver.received.length = 0;
  receiver.answer = (_, response) => void response.writeHead(204).end();
});

export const path = '/v1/webhooks';
export const patch = (id: string, body: object, by: Record<string, string> = LENDCO) =>
  send(service.port, 'PATCH', `${path}/${id}`, {
    headers: { 'content-type': 'application/json', ...by },
    body: JSON.stringify(body),
  });
export async function create(
  body: object,
  by: Record<string, string> = LENDCO,
): Promise<{ id: string; secret: string }> {
  const { status, text, json } = await service.post(path, { url: receiver.url, ...body }, by);
  if (status !== 201) throw new Error(text);
  return { id: json.webhook_id, secret: json.secret };
}
export const isSignedBy = (secret: string, body: string, headers: Record<string, string>): boolean => {
  try {
    return new Webhook(secret).verify(body, headers) !== undefined;
  } catch {
    return false;
  }
};
export const remove = (id: string, by: Record<string, string> = LENDCO) => service.delete(`${path}/${id}`, by);
export const act = (tris_id: string, criticality = 'critical', times = 1) =>
  relay(
    service,
    Array.from({ length: times }, () => ({ tris_id, category: 'financial', action_type: 'repayment', criticality })),
    OPERATOR,
  );
export const setBad = (tris: string, level: number) =>
  service.post(`/v1/identities/${tris}/bad-status`, { level, reason_code: 'fraud' }, OPERATOR);
export const deliveriesOf = async (id: string) =>
  (await service.get(`${path}/${id}/deliveries`, LENDCO)).json.deliveries;
export const statusOf = async (id: string) => {
  const { status, disabled_reason, pending } = (await service.get(`${path}/${id}`, LENDCO)).json;
  return [status, disabled_reason, pending];
};

/** A disabled webhook with two messages that wait: the first was tried once. @returns its id */
export async function pausedWithTwoWaiting(tris: string): Promise<string> {
  sender.retriesMs = [60_000];
  receiver.answer = (_, response) => void response.writeHead(500).end();
  const { id } = await create({ events: ['bad_status.changed'] });
  await setBad(tris, 5);
  await setBad(tris, 4);
  await eventually(async () => (await statusOf(id))[2] === 2 && (await deliveriesOf(id))[1]?.attempts === 1);
  await patch(id, { status: 'disabled' });
  return id;
}
