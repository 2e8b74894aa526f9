import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { becomes, eventually } from '../contracts/harness.js';
import { type Service, applied, platformPolicy, policyBody, relay, startService } from './service.fixture.js';

const KEYS = [
  {
    id: 'all',
    sha256: sha256Hex('all'),
    scopes: ['ops', 'policies:write', 'relay:write', 'access:check', 'identity:write'],
  },
  { id: 'lender', sha256: sha256Hex('lender'), scopes: ['policies:write'], organization: 'tris:lender' },
  { id: 'other', sha256: sha256Hex('other'), scopes: ['policies:write'], organization: 'tris:other' },
  { id: 'ops', sha256: sha256Hex('ops'), scopes: ['ops'] },
];
const as = (key: string, more: Record<string, string> = {}) => ({ 'x-api-key': key, ...more });
const ALL = as('all');

let service: Service;
/** Of the keys. */
let folder: string;
const people = Array.from({ length: 60 }, (_, i) => `tris:p${String(i).padStart(2, '0')}`);
/** By policy: the score of each of the first ten. */
const scores = new Map<string | null, number[]>();

const VP_A = platformPolicy('VP_A_V1', { finance_repaid: 'Critical', social_vouch: 'Minimal' });
const VP_B = platformPolicy('VP_B_V1', { finance_repaid: 'Minimal', social_vouch: 'Critical' });
const VP_ORG = policyBody('VP_ORG_V1', { security_audit: 'High' });

const post = (path: string, body?: unknown, headers = ALL) => service.post(`/v1/policies/vp${path}`, body, headers);
const promote = (id: string, body: object = { scope: 'platform' }, headers = ALL) =>
  post(`/${id}/promote`, body, headers);
const rollBack = (id: string, body: object | undefined = undefined, headers = ALL) =>
  post(`/${id}/rollback`, body, headers);
const score = async (id: string, query = '', headers: Record<string, string> = {}) =>
  (await service.get(`/v1/disc/score/${id}${query}`, headers)).json;

/** Every row and the log's head, to compare before and after. */
async function everything() {
  const { eventStore, readModels, jobs } = service.stores;
  const rows: unknown[] = [];
  for (const { id, views, status } of await readModels.generations()) {
    if (status === 'dropped') continue;
    for (const view of Object.keys(views)) {
      for (let cursor: string | null = null; ;) {
        const page = await readModels.scan(id, view, cursor, 1_000);
        rows.push(...page.rows);
        if (page.cursor === null) break;
        ({ cursor } = page);
      }
    }
  }
  return { head: await eventStore.head(), manifest: await readModels.manifest(), rows, jobs: await jobs.list() };
}

const finished = (replayId: string) =>
  becomes(
    async () => (await service.get(`/v1/replays/${replayId}`, ALL)).json,
    ({ status }) => !['queued', 'running'].includes(status),
  );

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'credence-keys-'));
  const file = join(folder, 'keys.json');
  writeFileSync(file, JSON.stringify(KEYS));
  service = await startService({ CREDENCE_API_KEYS: file });
  for (const policy of [VP_A, VP_B, VP_ORG]) expect((await post('', policy)).status).toBe(201);
  const min = await relay(
    service,
    people.flatMap((tris_id, i) => [
      ...Array.from({ length: i }, () => ({
        tris_id,
        category: 'financial',
        action_type: 'repaid',
        criticality: 'low',
      })),
      { tris_id, category: 'social', action_type: 'vouch', criticality: i % 2 ? 'critical' : 'minimal' },
    ]),
    ALL,
  );
  for (const policy of [null, 'VP_A_V1', 'VP_B_V1']) {
    const seen = await Promise.all(
      people
        .slice(0, 10)
        .map((id) => score(id, `?vp=${policy ?? 'model'}`, { 'credence-min-position': min }).then((s) => s.score)),
    );
    scores.set(policy, seen);
  }
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true });
});

describe('evaluate', () => {
  test('shows subjects before and after, and writes nothing', async () => {
    const before = await everything();
    const { status, json } = await post('/evaluate', { policy: VP_A, subjects: ['tris:p40', 'tris:nobody'] });
    expect([status, json.policy_id, json.lens]).toEqual([
      200,
      'VP_A_V1',
      { policy_id: null, content_hash: MODEL_LENS.content_hash },
    ]);
    const [known, unknown] = json.results;
    const [current, projected] = [await score('tris:p40'), await score('tris:p40', '?vp=VP_A_V1')];
    for (const [shown, full] of [
      [known.current, current],
      [known.projected, projected],
    ]) {
      const { score, score_rating, total_tct, disc_metrics } = full;
      expect(shown).toEqual({ score, score_rating, total_tct, disc_metrics });
    }
    expect(known.delta.total_tct).toBe(projected.total_tct - current.total_tct);
    expect(known.rating_change).toEqual({ from: current.score_rating, to: projected.score_rating });
    expect(unknown).toMatchObject({ tris_id: 'tris:nobody', current: null, problem: { code: 'identity_not_found' } });
    expect(json.summary.count).toBe(1);
    const [mover] = json.summary.top_movers.up;
    expect(mover.reasons.length).toBeGreaterThan(0);
    expect([known.reasons, unknown.reasons]).toEqual([mover.reasons, []]);
    const byId = await post('/evaluate', { policy_id: 'VP_A_V1', subjects: ['tris:p40'] });
    expect([byId.json.content_hash, byId.json.results[0]]).toEqual([json.content_hash, known]);
    const everyone = await post('/evaluate', { policy_id: 'VP_B_V1' });
    expect([everyone.json.results, everyone.json.summary.count]).toEqual([[], people.length]);
    expect(await everything()).toEqual(before);
  });

  test('by another version of the model shows that on both sides, of subjects and of everyone', async () => {
    const asked = { policy_id: 'VP_A_V1', subjects: ['tris:p40'], model: 'disc-2' };
    const { json } = await post('/evaluate', asked);
    const [{ current, projected }] = json.results;
    for (const [shown, query] of [
      [current, '?model=disc-2'],
      [projected, '?vp=VP_A_V1&model=disc-2'],
    ]) {
      const {
        score: own,
        score_rating,
        total_tct,
        reliability,
        evidence,
        reliability_interval,
        disc_metrics,
        model,
      } = await score('tris:p40', query);
      expect(shown).toEqual({
        score: own,
        score_rating,
        total_tct,
        reliability,
        evidence,
        reliability_interval,
        disc_metrics,
      });
      expect(json.model).toEqual(model);
    }
    const replay = await post('/VP_A_V1/replay', { model: 'disc-2' });
    const { result } = await finished(replay.json.replay_id);
    expect([result.before.model.id, result.after.model.id, result.count]).toEqual(['disc-2', 'disc-2', people.length]);
    expect((await post('/evaluate', { ...asked, model: 'disc-0' })).json.code).toBe('validation_failed');
  });

  test.each([
    ['no policy', {}, 400, 'validation_failed'],
    ['two policies', { policy_id: 'VP_A_V1', policy: VP_A }, 400, 'validation_failed'],
    ['an unknown policy', { policy_id: 'VP_NONE_V1' }, 404, 'policy_not_found'],
    ['an unknown AP', { policy_id: 'VP_A_V1', access_policies: ['AP_NONE_V1'] }, 404, 'policy_not_found'],
    [
      'a wrong weight',
      { policy: { ...VP_A, inputs: [{ ...VP_A.inputs[0], weight: 0.1 }] } },
      422,
      'weight_criticality_mismatch',
    ],
    [
      '120 subjects',
      { policy_id: 'VP_A_V1', subjects: people.concat(people.map((id) => `${id}x`)) },
      400,
      'batch_too_large',
    ],
  ])('refuses %s', async (_what, body, status, code) => {
    const answer = await post('/evaluate', body);
    expect([answer.status, answer.json.code]).toEqual([status, code]);
  });
});

describe('a preview over everyone', () => {
  /** Lets passes over the population read page after page of ten, the first only once it is released. */
  function hold() {
    const { readModels } = service.stores;
    const { scan } = readModels;
    const held = { pages: 0, reading: Promise.resolve(), release: () => undefined as void };
    const released = new Promise<void>((resolve) => (held.release = resolve));
    held.reading = new Promise((resolve) => {
      readModels.scan = async (id, view, cursor) => {
        held.pages++;
        resolve();
        await released;
        return scan.call(readModels, id, view, cursor, 10);
      };
    });
    return { held, end: () => (held.release(), (readModels.scan = scan)) };
  }

  test('runs one at a time', async () => {
    const { held, end } = hold();
    try {
      const first = post('/evaluate', { policy_id: 'VP_A_V1' });
      await held.reading;
      const second = await post('/evaluate', { policy_id: 'VP_B_V1' });
      expect([second.status, second.json.code, second.headers['retry-after']]).toEqual([503, 'preview_busy', '5']);
      expect((await post('/evaluate', { policy_id: 'VP_B_V1', subjects: ['tris:p40'] })).status).toBe(200);
      held.release();
      expect((await first).json.summary.count).toBe(people.length);
      expect((await post('/evaluate', { policy_id: 'VP_B_V1' })).status).toBe(200);
    } finally {
      end();
    }
  });

  test('ends when its client goes away', async () => {
    const { held, end } = hold();
    try {
      const gone = new Promise((resolve) => {
        service.app.getHttpServer().once('connection', (socket: Socket) => void socket.once('close', resolve));
      });
      const path = '/v1/policies/vp/evaluate';
      const headers = { ...ALL, 'content-type': 'application/json' };
      const client = request({ port: service.port, host: '127.0.0.1', method: 'POST', path, headers, agent: false });
      client.on('error', () => undefined);
      client.end(JSON.stringify({ policy_id: 'VP_A_V1' }));
      await held.reading;
      client.destroy();
      await gone;
      held.release();
      for (let status = 503; status !== 200; status = (await post('/evaluate', { policy_id: 'VP_A_V1' })).status);
      // The one page it was about to read, and the six and the last, empty or not, of the pass that followed.
      expect(held.pages).toBeLessThanOrEqual(1 + people.length / 10 + 1);
    } finally {
      end();
    }
  });
});

describe('the access that a preview shows', () => {
  // tris:p40 has 40 repaid loans and a vouch: 1,210 TCT under the model's lens, 5,610 under VP_A, 540 under VP_B.
  const subjects = ['tris:p40'];
  const access_policies = ['AP_OPERATORS_V1', 'AP_LENDER_V1', 'AP_OTHER_V1', 'AP_THROUGH_A_V1'];
  const seen = async (policy_id: string, scope: string) => {
    const { json } = await post('/evaluate', { policy_id, scope, subjects, access_policies });
    const { access } = json.results[0] as { access: { before: boolean; after: boolean }[] };
    return access.map(({ before, after }) => `${before ? 'yes' : 'no'} ${after ? 'yes' : 'no'}`);
  };
  const checked = () =>
    Promise.all(
      access_policies.map(async (policy_id) => {
        const { json } = await service.post('/v1/policies/ap/check', { policy_id, subject_tris: subjects[0] }, ALL);
        return json.granted ? 'yes' : 'no';
      }),
    );
  const flips = async (policy_id: string, scope: string) => {
    const started = await post(`/${policy_id}/replay`, { scope, access_policies });
    const { result } = await finished(started.json.replay_id);
    return result.access.map(({ gained }: { gained: number }) => gained > 0);
  };

  beforeAll(async () => {
    const create = (policy_id: string, key: string, more = {}) =>
      service.post('/v1/policies/ap', { policy_id, rules: { tct_min: 5_000 }, ...more }, as(key));
    await create('AP_OPERATORS_V1', 'all');
    await create('AP_LENDER_V1', 'lender');
    await create('AP_OTHER_V1', 'other');
    await create('AP_THROUGH_A_V1', 'lender', { vp: 'VP_A_V1' });
  });

  test('is of all that are not retired in a replay that names none', async () => {
    const policy = { policy_id: 'AP_RETIRED_V1', rules: { tct_min: 1 } };
    expect((await service.post('/v1/policies/ap', policy, ALL)).status).toBe(201);
    expect((await service.post('/v1/policies/ap/AP_RETIRED_V1/retire', undefined, ALL)).status).toBe(200);
    await applied(service);
    const started = await post('/VP_A_V1/replay', { scope: 'platform' });
    const { result } = await finished(started.json.replay_id);
    const named = result.access.map(({ policy_id }: { policy_id: string }) => policy_id);
    expect(named).toEqual(expect.arrayContaining(access_policies));
    expect(named).not.toContain('AP_RETIRED_V1');
  });

  test('is that of the access policies it names', async () => {
    const { json } = await post('/evaluate', { policy_id: 'VP_A_V1' });
    expect(json.summary.access).toEqual([]);
    const named = await post('/evaluate', { policy_id: 'VP_A_V1', access_policies });
    expect(named.json.summary.access).toHaveLength(access_policies.length);
    // Who has 5,000 TCT under the model's lens and under VP_A; the last one uses VP_A on both sides.
    const scores = await Promise.all(
      people.map((id) =>
        Promise.all([score(id), score(id, '?vp=VP_A_V1')]).then((both) => both.map((s) => s.total_tct)),
      ),
    );
    const [before, after] = [0, 1].map((at) => scores.filter((tct) => tct[at]! >= 5_000).length);
    expect(after).toBeGreaterThan(before!);
    expect(
      named.json.summary.access.map(({ granted_before, granted_after, gained, lost }: Record<string, number>) => {
        expect(granted_after! - granted_before!).toBe(gained! - lost!);
        return [granted_before, granted_after];
      }),
    ).toEqual([
      [before, after],
      [before, after],
      [before, after],
      [after, after],
    ]);
  });

  test('uses the present: a verification that expires within the hour still counts', async () => {
    const status = 'zk-KYH';
    const grant = { status, evidence_hash: 'a'.repeat(64), expires_at: new Date(Date.now() + 60_000).toISOString() };
    const verified = await service.post(`/v1/identities/${subjects[0]}/verifications`, grant, ALL);
    await service.post('/v1/policies/ap', { policy_id: 'AP_KYH_V1', rules: { verification: ['zk-KYH'] } }, ALL);
    const after = { ...ALL, 'credence-min-position': verified.headers['credence-position'] as string };
    const asked = { policy_id: 'VP_A_V1', subjects, access_policies: ['AP_KYH_V1'] };
    const { json } = await service.post('/v1/policies/vp/evaluate', asked, after);
    expect(json.results[0].access).toEqual([{ policy_id: 'AP_KYH_V1', before: true, after: true }]);
  });

  test('equals the result of checks: under the policy’s own VP, else its owner’s lens, else the platform’s', async () => {
    expect(await seen('VP_A_V1', 'platform')).toEqual(['no yes', 'no yes', 'no yes', 'yes yes']);
    expect(await seen('VP_A_V1', 'organization')).toEqual(['no no', 'no yes', 'no no', 'yes yes']);

    // An organization with a lens of its own does not follow the platform's.
    const own = await promote('VP_B_V1', { scope: 'organization' }, as('lender'));
    expect(own.status).toBe(200);
    const listed = (await service.get('/v1/policies/vp', { 'credence-min-position': own.json.position })).json.policies;
    expect(listed.map(({ policy_id, active_for }: any) => [policy_id, active_for])).toContainEqual([
      'VP_B_V1',
      ['organization'],
    ]);
    expect(await seen('VP_A_V1', 'platform')).toEqual(['no yes', 'no no', 'no yes', 'yes yes']);
    expect(await seen('VP_A_V1', 'organization')).toEqual(['no no', 'no yes', 'no no', 'yes yes']);
    expect(await flips('VP_A_V1', 'platform')).toEqual([true, false, true, false]);
    expect(await flips('VP_A_V1', 'organization')).toEqual([false, true, false, false]);

    await promote('VP_A_V1');
    expect(await checked()).toEqual(['yes', 'no', 'yes', 'yes']);
    // What an organization would fall back to is the platform's lens; the others' see through it all along.
    expect(await seen('VP_A_V1', 'organization')).toEqual(['yes yes', 'no yes', 'yes yes', 'yes yes']);
    await rollBack('VP_A_V1');
    await promote('VP_A_V1', { scope: 'organization' }, as('lender'));
    expect(await checked()).toEqual(['no', 'yes', 'no', 'yes']);
    await rollBack('VP_A_V1', {}, as('lender'));
    await rollBack('VP_B_V1', {}, as('lender'));
  });
});

describe('a replay over everyone', () => {
  test('says what would change, and a promotion records it', async () => {
    const started = await post('/VP_A_V1/replay');
    expect([started.status, started.json.replay_id]).toEqual([202, expect.stringMatching(/^rpl_/)]);
    const replay = await finished(started.json.replay_id);
    expect(replay).toMatchObject({
      status: 'completed',
      progress: { done: people.length, total: people.length },
      result: { count: people.length, after: { policy_id: 'VP_A_V1' } },
    });
    const { histogram, top_movers } = replay.result;
    const evaluated = await post('/evaluate', { policy_id: 'VP_A_V1' });
    expect(evaluated.json.summary.histogram).toEqual(histogram);
    const [first] = top_movers.up;
    expect(first).toMatchObject({ tris_id: 'tris:p58', reasons: [{ metric: 'financial_repaid' }] });
    expect(first.after.score).toBe((await score('tris:p58', '?vp=VP_A_V1')).score);

    const wrong = await promote('VP_B_V1', { scope: 'platform', replay_id: replay.replay_id });
    expect([wrong.status, wrong.json.code]).toEqual([409, 'replay_not_usable']);
    const elsewhere = await promote('VP_A_V1', { scope: 'organization', replay_id: replay.replay_id });
    expect([elsewhere.status, elsewhere.json.code]).toEqual([409, 'replay_not_usable']);
    expect(elsewhere.json.detail).toContain('for the scope "platform", not "organization"');
    const promoted = await promote('VP_A_V1', { scope: 'platform', replay_id: replay.replay_id });
    expect(promoted).toMatchObject({
      status: 200,
      json: { active: { policy_id: 'VP_A_V1' }, previous: { policy_id: null }, replay_id: replay.replay_id },
    });
    const listed = (await service.get('/v1/policies/vp')).json.policies;
    expect(listed.map(({ policy_id, active_for }: any) => [policy_id, active_for])).toContainEqual([
      'VP_A_V1',
      ['platform'],
    ]);
    const { json } = await service.get('/v1/policies/vp/VP_A_V1');
    const promotion = { status: 'promoted', scope: 'platform', replay_id: replay.replay_id };
    expect(json.history.at(-1)).toMatchObject(promotion);
    const other = (await service.get('/v1/policies/vp/VP_B_V1')).json;
    expect(other.history).not.toContainEqual(expect.objectContaining(promotion));
    expect((await rollBack('VP_A_V1')).json).toMatchObject({ active: { policy_id: null } });
  });

  test('is cancelled while it runs, has no result, and does not prevent another one', async () => {
    const { readModels } = service.stores;
    const { scan } = readModels;
    let release = () => undefined as void;
    const held = new Promise<void>((resolve) => (release = resolve));
    const reading = new Promise<void>((resolve) => {
      readModels.scan = async (...page) => {
        resolve();
        await held;
        return scan.apply(readModels, page);
      };
    });
    try {
      const { replay_id } = (await post('/VP_A_V1/replay')).json;
      await reading;
      expect((await service.get(`/v1/replays/${replay_id}`, ALL)).json).toMatchObject({
        status: 'running',
        progress: { done: 0 },
        finished_at: null,
      });
      const cancelled = await service.delete(`/v1/replays/${replay_id}`, ALL);
      expect(cancelled).toMatchObject({ status: 200, json: { status: 'cancelled', result: null } });
      expect(cancelled.json.finished_at).not.toBeNull();
      release();
      const next = (await post('/VP_A_V1/replay')).json.replay_id;
      expect(await finished(next)).toMatchObject({ status: 'completed', result: { count: people.length } });
      expect((await service.get(`/v1/replays/${replay_id}`, ALL)).json).toEqual(cancelled.json);
      const promoted = await promote('VP_A_V1', { scope: 'platform', replay_id });
      expect([promoted.status, promoted.json.code]).toEqual([409, 'replay_not_usable']);
    } finally {
      release();
      readModels.scan = scan;
    }
  });

  test('is the same one again with the same Idempotency-Key, and a finished one stays as it is', async () => {
    const headers = { ...ALL, 'idempotency-key': 'once' };
    const first = await post('/VP_A_V1/replay', {}, headers);
    const again = await post('/VP_A_V1/replay', {}, headers);
    expect(again.json.replay_id).toBe(first.json.replay_id);
    const other = await post('/VP_A_V1/replay', { scope: 'organization' }, headers);
    expect([other.status, other.json.code]).toEqual([422, 'idempotency_key_reused']);
    await finished(first.json.replay_id);
    const late = await service.delete(`/v1/replays/${first.json.replay_id}`, ALL);
    expect(late.json.status).toBe('completed');
    const unknown = await service.get(`/v1/replays/rpl_${'0'.repeat(32)}`, ALL);
    expect([unknown.status, unknown.json.code]).toEqual([404, 'replay_not_found']);
  });

  test('is visible to its organization only', async () => {
    const { json } = await post('/VP_A_V1/replay', undefined, as('lender'));
    expect(json.scope).toBe('organization');
    const path = `/v1/replays/${json.replay_id}`;
    for (const refused of [await service.get(path, as('other')), await service.delete(path, as('other'))]) {
      expect([refused.status, refused.json.code]).toEqual([404, 'replay_not_found']);
      expect(refused.json.detail).not.toContain('tris:');
    }
    await finished(json.replay_id);
  });
});

describe('a promotion', () => {
  test('for the platform switches every answer, resets the feed, and is rolled back', async () => {
    const key = as('all');
    const feed = (await service.get('/v1/disc/changes?limit=1000', key)).json;
    const promoted = await promote('VP_A_V1');
    expect(promoted).toMatchObject({ status: 200, json: { scope: 'platform', active: { policy_id: 'VP_A_V1' } } });
    expect(promoted.headers['credence-position']).toBe(promoted.json.position);
    expect((await promote('VP_A_V1')).json).toMatchObject({ active: { policy_id: 'VP_A_V1' } });
    expect(await score('tris:p03')).toMatchObject({ score: scores.get('VP_A_V1')![3], lens: promoted.json.active });
    expect((await score('tris:p03', '?vp=model')).score).toBe(scores.get(null)![3]);
    const reset = (await service.get(`/v1/disc/changes?limit=1000&cursor=${feed.next_cursor}`, key)).json;
    expect([reset.reset, reset.changes.length]).toEqual([true, people.length]);
    expect((await service.get(`/v1/disc/changes?cursor=${reset.next_cursor}`, key)).json).toMatchObject({
      changes: [],
    });
    const no = await rollBack('VP_B_V1');
    expect([no.status, no.json.code]).toEqual([409, 'policy_not_active']);
    expect((await rollBack('VP_A_V1')).json).toMatchObject({ active: { policy_id: null } });
    expect((await score('tris:p03')).score).toBe(scores.get(null)![3]);
  });

  test('for an organization is the default of its keys alone', async () => {
    const promoted = await promote('VP_ORG_V1', { scope: 'organization' }, as('lender'));
    expect(promoted).toMatchObject({ status: 200, json: { active: { policy_id: 'VP_ORG_V1' } } });
    expect(await score('tris:p03', '', as('lender'))).toMatchObject({ total_tct: 0, lens: { policy_id: 'VP_ORG_V1' } });
    expect(await score('tris:p03', '', as('other'))).toMatchObject({ lens: { policy_id: null } });
    expect(await score('tris:p03', '?vp=VP_A_V1', as('lender'))).toMatchObject({ lens: { policy_id: 'VP_A_V1' } });
    await promote('VP_A_V1');
    expect(await score('tris:p03', '', as('lender'))).toMatchObject({ lens: { policy_id: 'VP_ORG_V1' } });
    expect((await rollBack('VP_ORG_V1', {}, as('lender'))).status).toBe(200);
    expect(await score('tris:p03', '', as('lender'))).toMatchObject({ lens: { policy_id: 'VP_A_V1' } });
    await rollBack('VP_A_V1');
  });

  test('for an organization is computed by the platform’s version of the model, and by another on request', async () => {
    await promote('VP_A_V1', { scope: 'organization' }, as('lender'));
    const own = async (query = '') => {
      const { lens, model, total_tct } = await score('tris:p03', query, as('lender'));
      return [lens.policy_id, model.id, total_tct];
    };
    const [byDisc1, byDisc2] = [await own('?model=disc-1'), await own('?model=disc-2')];
    expect([byDisc1.slice(0, 2), byDisc2.slice(0, 2)]).toEqual([
      ['VP_A_V1', 'disc-1'],
      ['VP_A_V1', 'disc-2'],
    ]);
    expect(byDisc1[2]).toBeGreaterThan(byDisc2[2]);
    expect(await own()).toEqual(byDisc1);
    expect((await service.post('/v1/models/disc-2/promote', {}, as('ops'))).status).toBe(200);
    expect(await own()).toEqual(byDisc2);
    expect(await own('?model=disc-1')).toEqual(byDisc1);
    expect((await service.post('/v1/models/disc-2/rollback', {}, as('ops'))).status).toBe(200);
    expect((await rollBack('VP_A_V1', { scope: 'organization' }, as('lender'))).status).toBe(200);
  });

  test('requires the scope and the organization', async () => {
    expect((await promote('VP_A_V1', { scope: 'platform' }, as('lender'))).status).toBe(403);
    expect((await promote('VP_A_V1', { scope: 'organization' }, as('other'))).status).toBe(403);
    expect((await promote('VP_A_V1', { scope: 'organization' }, as('ops'))).status).toBe(403);
    expect((await post('', { ...VP_A, policy_id: 'VP_A_V2' }, as('other'))).status).toBe(403);
    expect((await post('/VP_A_V1/retire', undefined, as('other'))).status).toBe(403);
    expect((await promote('VP_A_V1', { scope: 'platform' }, {} as typeof ALL)).status).toBe(401);
    expect((await promote('VP_NONE_V1')).status).toBe(404);
    expect((await promote('VP_A_V1', { scope: 'platform', replay_id: `rpl_${'0'.repeat(32)}` })).status).toBe(404);
  });

  test('of two concurrent ones, one wins and the other gets 409', async () => {
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all([promote('VP_A_V1'), promote('VP_B_V1')]);
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
      expect(answers.find(({ status }) => status === 409)!.json.code).toBe('promotion_conflict');
      const { json } = answers.find(({ status }) => status === 200)!;
      expect((await score('tris:p03')).lens).toEqual(json.active);
      await rollBack(json.policy_id);
    }
  });

  test('repeated with its Idempotency-Key is made once', async () => {
    const headers = { ...ALL, 'idempotency-key': 'promote-once' };
    const first = await promote('VP_A_V1', { scope: 'platform' }, headers);
    await rollBack('VP_A_V1');
    const again = await promote('VP_A_V1', { scope: 'platform' }, headers);
    expect([again.status, again.json]).toEqual([200, first.json]);
    expect((await score('tris:p03')).lens.policy_id).toBeNull();
  });

  test('of a retired policy is refused', async () => {
    await post('', { ...VP_A, policy_id: 'VP_OLD_V1' });
    await post('/VP_OLD_V1/retire');
    const answer = await promote('VP_OLD_V1');
    expect([answer.status, answer.json.code]).toEqual([409, 'policy_retired']);
  });

  test('that takes longer than two seconds returns 202, and its status reports when it is applied', async () => {
    const release = await service.holdReadModels();
    const pending = await promote('VP_A_V1');
    expect([pending.status, pending.json]).toEqual([
      202,
      expect.objectContaining({ job_id: expect.any(String), generation: null, active: expect.anything() }),
    ]);
    const repeated = await promote('VP_A_V1');
    expect([repeated.status, repeated.json.job_id]).toEqual([202, pending.json.job_id]);
    expect((await score('tris:p03')).lens.policy_id).toBeNull();
    const path = `/v1/promotions/${pending.json.job_id}`;
    expect((await service.get(path, ALL)).json.status).toBe('switching');
    // An outage of the read models while it is waited for.
    const { readModels } = service.stores;
    const { manifest } = readModels;
    readModels.manifest = () => Promise.reject(new StoreUnavailable('away'));
    expect((await service.get(path, ALL)).status).toBe(503);
    readModels.manifest = manifest;
    await release();
    await eventually(async () => (await service.get(path, ALL)).json.status === 'applied', 'applied');
    expect((await service.get(path, ALL)).json).toMatchObject({ generation: 'g1', active: { policy_id: 'VP_A_V1' } });
    expect((await score('tris:p03')).lens).toEqual(pending.json.active);
    await rollBack('VP_A_V1');
  });

  test('under load shows every reader one lens at a time, and batches one lens throughout', async () => {
    const hashes = new Map<string, string | null>([[MODEL_LENS.content_hash, null]]);
    for (const id of ['VP_A_V1', 'VP_B_V1']) {
      hashes.set((await service.get(`/v1/policies/vp/${id}`)).json.content_hash, id);
    }
    let promoting = true;
    let reads = 0;
    const seen = new Set<string>();
    const check = (answer: any, i: number) => {
      const policy = hashes.get(answer.lens.content_hash);
      expect([answer.lens.policy_id, answer.score]).toEqual([policy, scores.get(policy!)![i]]);
      seen.add(answer.lens.content_hash);
    };
    const reader = async (start: number) => {
      for (let i = start; promoting; i = (i + 1) % 10) {
        check(await score(people[i]!), i);
        const { json } = await service.post('/v1/disc/score/batch', { tris_ids: people.slice(0, 10) });
        json.results.forEach(({ data }: any, n: number) => check(data, n));
        expect(new Set(json.results.map(({ data }: any) => data.lens.content_hash)).size).toBe(1);
        const { json: explained } = await service.get(`/v1/disc/score/${people[i]}/explain`);
        check(explained, i);
        reads += 3;
      }
    };
    const readers = Promise.all([0, 2, 4, 6].map(reader));
    for (let round = 0; round < 4; round++) {
      const a = await promote('VP_A_V1');
      const min = { 'credence-min-position': a.json.position };
      expect((await score('tris:p05', '', min)).lens.policy_id).toBe('VP_A_V1');
      await promote('VP_B_V1');
      await rollBack('VP_B_V1');
      await rollBack('VP_A_V1');
    }
    promoting = false;
    await readers;
    expect(seen.size).toBe(3);
    expect(reads).toBeGreaterThan(50);
  });
});
