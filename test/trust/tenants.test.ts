import { randomUUID } from 'node:crypto';
import { SCOPES } from '../../src/credentials/caller.js';
import type { NewEvent } from '../../src/kernel/event.js';
import { type Service, as, seen, startServiceWithKeys } from '../policies/service.fixture.js';
import { bearer, claim, newAccount } from '../sessions/wallet.js';

/** What an organization's keys see and undo is what its own keys asserted. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'a1', scopes: SCOPES, organization: 'tris:a' },
  { id: 'a2', scopes: SCOPES, organization: 'tris:a' },
  { id: 'b', scopes: SCOPES, organization: 'tris:b' },
];
const [OPERATOR, A1, A2, B] = [as('operator'), as('a1'), as('a2'), as('b')];

/** No node is asked before the job runs. */
const CHAIN = 137;

let service: Service;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS, { [`CREDENCE_RPC_${CHAIN}`]: 'http://127.0.0.1:1' });
});
afterAll(() => service.close());

const assertLink = async (wallet: string, tris_id: string, by: Record<string, string>) => {
  const { status } = await service.post('/api/link-account', { wallet, tris_id }, by);
  expect(status).toBe(200);
};
const unlink = async (wallet: string, by: Record<string, string>) =>
  (await service.post('/v1/wallets/unlink', { wallet }, by)).status;
const walletsOf = async (tris_id: string, by: Record<string, string>) => {
  const { status, json } = await service.get(`/v1/wallets/${tris_id}`, { ...by, ...(await seen(service)) });
  expect(status).toBe(200);
  return (json.wallets as { wallet: string }[]).map(({ wallet }) => wallet).sort();
};

describe('the wallets of a TRIS', () => {
  test('an organization’s key sees those that its organization asserted, an operator’s all', async () => {
    const tris = 'tris:shared';
    const [byA, byB, byOperator] = [newAccount().address, newAccount().address, newAccount().address];
    await assertLink(byA, tris, A1);
    await assertLink(byB, tris, B);
    await assertLink(byOperator, tris, OPERATOR);
    expect(await walletsOf(tris, A1)).toEqual([byA]);
    expect(await walletsOf(tris, A2)).toEqual([byA]);
    expect(await walletsOf(tris, B)).toEqual([byB]);
    expect(await walletsOf(tris, OPERATOR)).toEqual([byA, byB, byOperator].sort());
  });

  test('what a wallet signed is seen by its own session and by operators', async () => {
    const owner = await claim(service, newAccount());
    expect(await walletsOf(owner.tris_id, A1)).toEqual([]);
    expect(await walletsOf(owner.tris_id, bearer(owner))).toEqual([owner.wallet]);
    expect(await walletsOf(owner.tris_id, OPERATOR)).toEqual([owner.wallet]);
  });

  test('a second key of an organization ends the link that the first asserted; another organization’s cannot', async () => {
    const wallet = newAccount().address;
    await assertLink(wallet, 'tris:undone', A1);
    expect(await unlink(wallet, B)).toBe(403);
    expect(await unlink(wallet, A2)).toBe(200);
    expect(await walletsOf('tris:undone', A1)).toEqual([]);
  });

  test('a link from before organizations were recorded is ended by the key that asserted it', async () => {
    const wallet = newAccount().address.toLowerCase();
    const at = new Date().toISOString();
    const event: NewEvent = {
      id: randomUUID(),
      type: 'WalletLinked',
      data: { tris_id: 'tris:old', wallet, proof: 'asserted', chain_id: null },
      metadata: {
        schema: 1,
        occurred_at: at,
        recorded_at: at,
        correlation_id: 'old',
        actor: 'key:a1',
        body_hash: 'old',
        index: 0,
        size: 1,
      },
    };
    await service.stores.eventStore.append(`wallet-${wallet}`, 'no-stream', [event]);
    expect(await walletsOf('tris:old', A1)).toEqual([]);
    expect(await walletsOf('tris:old', OPERATOR)).toHaveLength(1);
    expect(await unlink(wallet, A2)).toBe(403);
    expect(await unlink(wallet, A1)).toBe(200);
  });
});

test('an organization’s key sees the histories that its organization asked for, and not whose wallet it is', async () => {
  const owner = await claim(service, newAccount());
  const ingest = (by: Record<string, string>) =>
    service.post('/v1/wallets/ingest', { wallet: owner.wallet, chain_id: CHAIN }, by);
  const jobOf = async (id: string, by: Record<string, string>) => {
    const { status, json } = await service.get(`/v1/wallets/ingest/${id}`, by);
    return status === 200 ? json.tris_id : status;
  };
  const { job_id } = (await ingest(A1)).json;
  expect(await jobOf(job_id, A1)).toBeNull();
  expect(await jobOf(job_id, A2)).toBeNull();
  expect(await jobOf(job_id, B)).toBe(404);
  expect(await jobOf(job_id, OPERATOR)).toBe(owner.tris_id);
  expect(await jobOf(job_id, bearer(owner))).toBe(owner.tris_id);
  // The job is still open: B gets the same one, and may see it from then on.
  expect((await ingest(B)).json.job_id).toBe(job_id);
  expect(await jobOf(job_id, B)).toBeNull();
  const cancel = async (by: Record<string, string>) => (await service.delete(`/v1/jobs/${job_id}`, by)).status;
  expect(await cancel(B)).toBe(403);
  expect(await cancel(A2)).toBe(200);
});
