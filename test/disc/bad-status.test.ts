import { canonicalJson, sha256Hex } from '../../src/kernel/hash.js';
import { type Service, relay, seen, startService } from '../policies/service.fixture.js';

/** Every answer whose score is a BAD status says so: with level, reason code and since when. */

const BOB = 'tris:bob';
const GOOD = { tris_id: BOB, category: 'financial', action_type: 'loan', criticality: 'high' };
const STATUS = { level: 3, reason_code: 'fraud', since: expect.stringMatching(/^\d{4}-.*Z$/) };

let service: Service;
let since: string;
beforeAll(async () => {
  service = await startService();
  await relay(service, [GOOD]);
  await service.post(`/v1/identities/${BOB}/bad-status`, { level: 3, reason_code: 'fraud' });
  await relay(service, [GOOD]);
  since = (await get('')).bad_status.since;
});
afterAll(() => service.close());

const get = async (path: string, of = `/v1/disc/score/${BOB}`) =>
  (await service.get(of + path, { ...(await seen(service)), 'x-api-key': service.key })).json;
const report = (query: string) => get(query, `/v1/disc/report/${BOB}`);
const claimsOf = (jws: string) => JSON.parse(Buffer.from(jws.split('.')[1]!, 'base64url').toString());

test.each(['disc-1', 'disc-2'])('the explanation and the report by %s show it', async (model) => {
  const explanation = await get(`/explain?model=${model}`);
  expect(explanation).toMatchObject({ score: 3, bad_status: STATUS, forfeits: [], next_rating: null });
  const reported = await report(`?model=${model}`);
  expect(reported).toMatchObject({ score: 3, score_rating: 'BAD', bad_status: { ...STATUS, since } });
  expect(claimsOf(reported.proof)).toMatchObject({ bad_status: reported.bad_status });
});

test('from disc-2 on it is part of what a report hashes; reports by disc-1 keep their hashes', async () => {
  const hashed = (content: object) => sha256Hex(canonicalJson(content));
  const contentOf = (whole: any) => {
    const {
      report_id: _id,
      report_hash: _hash,
      portable_hash: _portable,
      proof: _proof,
      generated_at: _at,
      ...content
    } = whole;
    return content;
  };
  const [first, second] = [await report('?model=disc-1'), await report('?model=disc-2')];
  expect(second.report_hash).toBe(hashed(contentOf(second)));
  const { bad_status: _shown, ...before } = contentOf(first);
  expect(first.report_hash).toBe(hashed(before));
});

test('the history shows it after every event that it outweighs, also where a page continues', async () => {
  const entries: any[] = [];
  for (let cursor = ''; ;) {
    const page = await get(`/history?limit=1${cursor}`);
    entries.push(...page.entries);
    if (page.next_cursor === null) break;
    cursor = `&cursor=${page.next_cursor}`;
  }
  expect(entries.map(({ event_type, score, bad_status }) => [event_type, score, bad_status])).toEqual([
    ['ActionRelayed', 7.6, undefined],
    ['BadStatusSet', 3, { ...STATUS, since }],
    ['ActionRelayed', 3, { ...STATUS, since }],
  ]);
  expect((await get('/history')).entries).toEqual(entries);
});

test('it is gone once it is cleared', async () => {
  const tris_id = 'tris:carol';
  const score = `/v1/disc/score/${tris_id}`;
  await relay(service, [{ ...GOOD, tris_id }]);
  await service.post(`/v1/identities/${tris_id}/bad-status`, { level: 3, reason_code: 'fraud' });
  expect(await get('/explain', score)).toHaveProperty('bad_status');
  await service.delete(`/v1/identities/${tris_id}/bad-status`);
  expect(await get('/explain', score)).not.toHaveProperty('bad_status');
  expect(await get('', `/v1/disc/report/${tris_id}`)).not.toHaveProperty('bad_status');
  const { entries } = await get('/history', score);
  expect(entries.at(-1)).toMatchObject({ event_type: 'BadStatusCleared' });
  expect(entries.at(-1)).not.toHaveProperty('bad_status');
});
