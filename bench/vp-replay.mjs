/**
 * How fast a replay over the population is: the fold alone, over identities in memory with 5 metrics each; with access
 * policies tried on both sides; and read from LMDB as the job does it. `npm run bench:replay [identities]`, after a build. Prints one JSON line a case.
 */
import 'reflect-metadata';
import { setImmediate } from 'node:timers/promises';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { AccessProbes } from '../dist/src/features/access/access-probes.js';
import { parseRules } from '../dist/src/features/access/rules.js';
import { Summarizer } from '../dist/src/features/validation-policies/comparison.js';
import { eachIdentity } from '../dist/src/features/disc/population.js';
import { EncodedRows } from '../dist/src/stores/ports/encoded-rows.js';
import { LmdbReadModels } from '../dist/src/stores/lmdb/lmdb-read-models.js';
import { addAction } from '../dist/src/scoring/evidence.js';
import { MODEL_LENS } from '../dist/src/scoring/lens.js';
import { scoringBy } from '../dist/src/scoring/models/all.js';
import { disc1 } from '../dist/src/scoring/models/disc-1.js';

const identities = Number(process.argv[2] ?? 1_000_000);
const DISTINCT = 50_000;
const PAGE = 500;
const NO_VIEWS = { readSince: () => Promise.reject(new Error('no identity of this population is large')) };
const METRICS = [
  'financial_loan_repayment_consistency',
  'financial_txn_consistency',
  'behavioral_vote_participation',
  'security_multisig_participation',
  'compliance_moderation_flags',
  'creative_code_contribution',
  'social_verified_identity_linked',
  'educational_workshop_hosted',
];
const lens = {
  policy_id: 'VP_BENCH_V1',
  content_hash: 'bench',
  tct_by_metric: new Map(METRICS.slice(0, 6).map((metric, i) => [metric, [140, 100, 70, 30, 10, 140][i]])),
};

let seed = 1;
const random = (below) => {
  seed = (seed * 48271) % 2147483647;
  return seed % below;
};
const population = Array.from({ length: DISTINCT }, () => {
  const evidence = {};
  const first = random(METRICS.length);
  for (let m = 0; m < 5; m++) {
    const metric = METRICS[(first + m) % METRICS.length];
    for (let days = 1 + random(4); days > 0; days--) addAction(evidence, metric, random(5), random(700) * 86_400_000);
  }
  return { evidence, actions: 0, bad_status: null, verifications: [], changed: 1, latest: 0, dead_letters: [] };
});
const ids = population.map((_state, i) => `tris:${String(i).padStart(8, '0')}`);

async function measure(name, probes = [], visitAll = inMemory) {
  const fold = new Summarizer(scoringBy(MODEL_LENS, disc1), scoringBy(lens, disc1), probes, 700 * 86_400_000);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const started = performance.now();
  await visitAll((id, state) => fold.add(id, state, async () => []));
  const seconds = (performance.now() - started) / 1000;
  delay.disable();
  const { count, up, down } = await fold.summary();
  console.log(
    JSON.stringify({
      case: name,
      identities: count,
      up,
      down,
      seconds: Number(seconds.toFixed(3)),
      identities_per_second: Math.round(count / seconds),
      longest_pause_ms: Number((delay.max / 1e6).toFixed(1)),
    }),
  );
}

async function inMemory(visit) {
  for (let done = 0; done < identities;) {
    for (let i = 0; i < PAGE && done < identities; i++, done++)
      visit(ids[done % DISTINCT], population[done % DISTINCT]);
    await setImmediate();
  }
}

/** As many identities as are distinct, as rows of a generation. */
async function fromLmdb(probes) {
  const folder = await mkdtemp(join(tmpdir(), 'credence-bench-'));
  const models = await LmdbReadModels.open(folder, { clock: Date.now });
  try {
    await models.createGeneration('g1', { identities: 1 }, 'log');
    await models.acquireLease('g1', 'bench', 60_000);
    const start = { log: 'log', position: 0, event_id: null };
    const next = { log: 'log', position: 1, event_id: 'e' };
    const puts = EncodedRows.of(population.map((value, i) => ({ row: { view: 'identities', key: ids[i] }, value })));
    await models.apply('g1', { id: 'b', base: start, holder: 'bench', next, puts, deletes: [] });
    await measure('read from LMDB, no access policy', probes, (visit) =>
      eachIdentity(models, NO_VIEWS, [], { generation: 'g1' }, new AbortController().signal, (state, { tris_id }) =>
        visit(tris_id, state),
      ),
    );
  } finally {
    await models.close();
    await rm(folder, { recursive: true });
  }
}

/** Ten access policies of the given rules with rising thresholds, as a replay tries them. */
async function tenOf(rulesOf) {
  const all = Array.from({ length: 10 }, (_, i) => ({
    policy_id: `AP_${i}_V1`,
    vp: null,
    owner: null,
    retired: false,
    rules: rulesOf(i),
  }));
  const accessPolicies = {
    get: async (id) => all.find(({ policy_id }) => policy_id === id),
    rulesOf: ({ rules }) => parseRules(rules).rule,
  };
  const noRows = { rows: async () => [] };
  return new AccessProbes(noRows, accessPolicies, {}).probes(
    { scope: 'platform', tris_org: null },
    all.map(({ policy_id }) => policy_id),
  );
}

await measure('no access policy (warming up)');
await measure('no access policy');
await measure(
  '10 access policies over score, TCT and rating',
  await tenOf((i) => ({ disc_min: 8 + i, tct_min: 100 * i })),
);
await measure(
  '10 access policies over score and health of two categories',
  await tenOf((i) => ({ disc_min: 8 + i, metrics: { financial: 0.05 * i, security: 0.02 * i } })),
);
await fromLmdb();
