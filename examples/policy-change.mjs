// `npm run demo:policies [csv]`: an organization changes how real trust ratings are scored: preview, replay over everyone,
// promotion under load, rollback, and the same for a version of the model; and gates an action on the score, with the way to pass. Ends with 1 if anything is off.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { CredenceClient } from '../clients/typescript/dist/client.js';
import { table } from '../dist/src/cli/table.js';
import { parseRatings, toNdjson } from './otc.mjs';
import { startService } from './service.mjs';

const CSV = process.argv[2] ?? fileURLToPath(new URL('bitcoin-otc-excerpt.csv', import.meta.url));
const DIST = fileURLToPath(new URL('../dist/src/', import.meta.url));
const CLIENTS = 8;
const ANSWERS_EACH_SIDE = 200;
const WATCHED = 40;
const DAY_MS = 86_400_000;

const folder = mkdtempSync(join(tmpdir(), 'credence-policies-'));
const data = join(folder, 'data');
const env = { PATH: process.env.PATH, CREDENCE_DATA: data, CREDENCE_LOG_LEVEL: 'error' };
const print = (text = '') => process.stdout.write(`${text}\n`);
const step = (text) => print(`\n## ${text}`);

/** Runs a command of the command line, shows it with what it prints, and answers that. */
async function credence(...args) {
  print(`$ credence ${args.join(' ')}`);
  const { stdout } = await promisify(execFile)(process.execPath, [join(DIST, 'cli.js'), ...args], { env });
  print(stdout.trimEnd());
  return stdout;
}

let client;
const post = async (path, body) => (await client.post(path, { body })).data;
const get = async (path) => (await client.get(path)).data;

const policy = (policy_id, rating, flag) => ({
  policy_id,
  tris_org: 'tris:otc:exchange',
  inputs: [
    { metric: 'social_trade_rating', ...rating },
    { metric: 'compliance_trade_flags', ...flag },
  ],
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
});
const LOW = { criticality: 'Low', weight: 0.03 };
const STRICT = policy('VP_STRICT_V1', LOW, { criticality: 'Critical', weight: 0.14 });
// What is promoted for the platform must add up to 0.95 at least. Nobody here acts on these metrics.
for (let n = 1; n <= 27; n++) STRICT.inputs.push({ metric: `creative_contribution_${n}`, ...LOW });
const LENIENT = policy(
  'VP_LENIENT_V1',
  { criticality: 'Critical', weight: 0.14 },
  { criticality: 'Minimal', weight: 0.01 },
);

let service;
try {
  step('The log');
  const ratings = parseRatings(readFileSync(CSV, 'utf8'));
  const members = [...new Set(ratings.map(({ target }) => `tris:otc:${target}`))];
  const file = join(folder, 'actions.ndjson');
  writeFileSync(file, toNdjson(ratings));
  await credence('import', file);
  service = await startService({ data });
  client = new CredenceClient({ baseUrl: service.url, apiKey: service.key });

  step('Two policies, and what each would change for one member and for everyone');
  for (const vp of [STRICT, LENIENT]) {
    const json = await post('/v1/policies/vp', vp);
    print(`${json.policy_id} ${json.status}, ${json.content_hash.slice(0, 12)}…`);
  }
  const busiest = mostOf(ratings.map(({ target }) => `tris:otc:${target}`));
  for (const { policy_id } of [STRICT, LENIENT]) {
    const json = await post('/v1/policies/vp/evaluate', { policy_id, subjects: [busiest] });
    const [{ current, projected }] = json.results;
    print(
      `${busiest} under ${policy_id}: ${current.score} ${current.score_rating} → ${projected.score} ${projected.score_rating}`,
    );
    const { summary } = await post('/v1/policies/vp/evaluate', { policy_id });
    assert.equal(summary.count, members.length);
    print(`everyone: ${summary.count}, ${summary.up} up, ${summary.down} down, ${summary.mean_delta} on average`);
  }

  step('Replay over everyone');
  let replay = await post('/v1/policies/vp/VP_STRICT_V1/replay');
  while (['queued', 'running'].includes(replay.status)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    replay = await get(`/v1/replays/${replay.replay_id}`);
  }
  assert.equal(replay.status, 'completed');
  assert.equal(replay.result.count, members.length);
  print(`${replay.replay_id} ${replay.status}: ${replay.result.count} identities at ${replay.result.position}`);
  await credence('vp', 'diff', 'VP_STRICT_V1', 'VP_LENIENT_V1');

  step('Promotion, while clients read');
  const watched = members.slice(0, WATCHED);
  const expected = new Map();
  for (const vp of ['model', 'VP_STRICT_V1']) {
    for (const tris_id of watched) {
      const json = await get(`/v1/disc/score/${tris_id}?vp=${vp}`);
      expected.set(`${json.lens.content_hash} ${tris_id}`, json.score);
    }
  }
  const seen = new Map();
  let wrong = 0;
  let stop = false;
  const note = ({ tris_id, score, lens, generation }) => {
    if (expected.get(`${lens.content_hash} ${tris_id}`) !== score || !generation) wrong++;
    const name = lens.policy_id ?? 'the model’s own lens';
    seen.set(name, (seen.get(name) ?? 0) + 1);
  };
  const clients = Array.from({ length: CLIENTS }, async (_, n) => {
    for (let i = n; !stop; i++) {
      if (i % 4 > 0) note(await get(`/v1/disc/score/${watched[i % WATCHED]}`));
      else {
        const { results } = await post('/v1/disc/score/batch', { tris_ids: watched.slice(0, 5) });
        const lenses = new Set(results.map((result) => result.data.lens.content_hash));
        if (lenses.size !== 1) wrong++;
        for (const result of results) note(result.data);
      }
    }
  });
  const until = async (lens) => {
    const enough = (seen.get(lens) ?? 0) + ANSWERS_EACH_SIDE;
    while ((seen.get(lens) ?? 0) < enough) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  await until('the model’s own lens');
  const promotion = { scope: 'platform', replay_id: replay.replay_id };
  const promoted = await post('/v1/policies/vp/VP_STRICT_V1/promote', promotion);
  await until('VP_STRICT_V1');
  stop = true;
  await Promise.all(clients);
  print(`active: ${promoted.active.policy_id}, based on ${promoted.replay_id}`);
  for (const [lens, answers] of seen) print(`${answers} answers through ${lens}`);
  print(`${wrong} answers that mix the two`);
  assert.equal(wrong, 0);

  step('One history under both');
  for (const { policy_id } of [STRICT, LENIENT]) {
    const json = await get(`/v1/disc/score/${busiest}/history?vp=${policy_id}&limit=1000`);
    print(`${busiest} under ${policy_id}: ${json.entries.length} events, the last:`);
    print(
      table(
        json.entries.slice(-3).map((entry) => ({
          occurred: entry.occurred_at,
          metric: entry.metric,
          'TCT +/-': entry.tct_delta,
          'total TCT': entry.total_tct,
          score: entry.score,
          rating: entry.score_rating,
        })),
      ),
    );
  }

  step('An access policy that grants one and denies another');
  await post('/v1/policies/ap', { policy_id: 'AP_ESCROW_V1', rules: { tct_min: 600, verification: ['zk-KYH'] } });
  const scores = new Map();
  for (const tris_id of watched) scores.set(tris_id, (await get(`/v1/disc/score/${tris_id}`)).total_tct);
  const ranked = [...scores].sort(([, a], [, b]) => b - a).map(([tris_id]) => tris_id);
  const trusted = ranked[0];
  const newcomer = ranked.findLast((tris_id) => scores.get(tris_id) > 0 && scores.get(tris_id) < 600);
  const evidence = { evidence_hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08' };
  await post(`/v1/identities/${trusted}/verifications`, { status: 'zk-KYH', ...evidence });
  const check = async (subject_tris) => {
    const json = await post('/v1/policies/ap/check', { policy_id: 'AP_ESCROW_V1', subject_tris });
    print(`${subject_tris}: ${json.granted ? `granted until ${json.expires_at}` : 'denied'}`);
    return json;
  };
  assert.ok((await check(trusted)).granted);
  const denied = await check(newcomer);
  assert.equal(denied.granted, false);
  print(JSON.stringify(denied.how_to_pass, null, 1));

  step('Doing exactly what it says');
  for (const { fact, required, actual } of denied.how_to_pass) {
    if (fact === 'verification.zk-KYH') {
      await post(`/v1/identities/${newcomer}/verifications`, { status: 'zk-KYH', ...evidence });
      print('verified');
    } else {
      assert.equal(fact, 'net_tct');
      const action = { action_type: 'trade_rating', category: 'social', criticality: 'low', platform_id: 'otc:show' };
      const missing = Math.ceil((required - actual) / 30);
      // Under this policy a day earns 30 TCT at most.
      for (let n = 0; n < missing; n++) {
        const occurred_at = new Date(Date.now() - n * DAY_MS).toISOString();
        await post('/api/decision-relay', { tris_id: newcomer, occurred_at, ...action });
      }
      print(`${missing} more ratings of 30 TCT each, one a day`);
    }
  }
  const passed = await check(newcomer);
  assert.ok(passed.granted);
  const token = await post('/v1/eligibility/verify', { token: passed.eligibility_token });
  assert.ok(token.active);
  assert.match(await credence('access', 'audit', newcomer), /all agree/);

  step('Rollback');
  const back = await post('/v1/policies/vp/VP_STRICT_V1/rollback');
  assert.equal(back.active.policy_id, null);
  const now = await get(`/v1/disc/score/${trusted}`);
  assert.equal(now.score, expected.get(`${now.lens.content_hash} ${trusted}`));
  print(`${trusted} is at ${now.score} again, as before the promotion`);

  step('Another version of the model: back to disc-1, and from there to disc-2 with the comparison of everyone');
  await credence('models', 'rollback', 'disc-2');
  const comparison = await credence('models', 'replay', 'disc-2');
  await credence('models', 'promote', 'disc-2', '--replay', /replay (rpl_\w+)/.exec(comparison)[1]);
  const models = await get('/v1/models');
  print(models.models.map(({ id, active }) => `${id}: ${active ? 'serves' : 'does not serve'}`).join('\n'));
  assert.match(await credence('verify'), /identical/);
} finally {
  await service?.stop();
  rmSync(folder, { recursive: true, force: true });
}

function mostOf(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0][0];
}
