import { jest } from '@jest/globals';
import { type Service, startService } from '../policies/service.fixture.js';

/** Replays fold everybody, so one caller may not fill the queue with them. */

let service: Service;
beforeAll(async () => void (service = await startService()));
afterAll(() => service.close());

test('a sixth open replay of a caller is refused; its retries and other callers are not', async () => {
  const inputs = [{ metric: 'finance_loan', criticality: 'Minimal', weight: 0.01 }];
  const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
  const policy_id = 'VP_MANY_V1';
  await service.post('/v1/policies/vp', { policy_id, tris_org: 'tris:org', inputs, metadata });
  const replay = (headers = {}) => service.post(`/v1/policies/vp/${policy_id}/replay`, {}, headers);
  const first = await replay({ 'idempotency-key': 'first' });
  expect(first.status).toBe(202);
  const { jobs } = service.stores;
  const open = (await jobs.list({ kind: 'vp_replay' }))[0]!;
  const listed = (input: object) =>
    jest
      .spyOn(jobs, 'list')
      .mockImplementation(async (filter) =>
        filter?.status === 'queued'
          ? Array.from({ length: 5 }, () => ({ ...open, input: { ...open.input, ...input } }))
          : [],
      );
  listed({});
  const refused = await replay();
  expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([429, 'rate_limited', '10']);
  expect((await replay({ 'idempotency-key': 'first' })).json.replay_id).toBe(first.json.replay_id);
  listed({ caller: 'key:other' });
  expect((await replay()).status).toBe(202);
  jest.restoreAllMocks();
});
