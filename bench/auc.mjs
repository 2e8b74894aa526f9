// How well a score predicts: replays a log of ratings and prints the AUC with which a member's score just before each
// rating, and their reliability, tell whether that rating will be good or bad. Only ratings of members who have been
// rated before count; ties count half. Scores and folds are the product's own, from dist.
//
//   npm run bench:auc -- <csv of ratings>        imports it into a temporary store first
//   npm run bench:auc -- --data <folder>         replays the log of a store
import { readFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { evolve, newIdentity } from '../dist/projections/identities.js';
import { subjectOf } from '../dist/projections/identity-events.js';
import { importActions } from '../dist/src/cli/import-actions.js';
import { decodeEvent } from '../dist/projections/events.js';
import { reliability } from '../dist/src/scoring/health.js';
import { MODEL_LENS } from '../dist/src/scoring/lens.js';
import { isFlags } from '../dist/src/scoring/metrics.js';
import { ledgerOf, standingOf } from '../dist/src/scoring/score.js';
import { closeStores, openStores, storesExist } from '../dist/src/stores/open.js';
import { parseRatings, toNdjson } from '../examples/otc.mjs';

const { values, positionals } = parseArgs({ options: { data: { type: 'string' } }, allowPositionals: true });
const [csv] = positionals;
if ((csv === undefined) === (values.data === undefined)) {
  process.stderr.write('usage: npm run bench:auc -- <csv> | --data <folder>\n');
  process.exit(2);
}
if (values.data !== undefined && !storesExist(values.data)) {
  process.stderr.write(`There is no store in ${values.data}.\n`);
  process.exit(1);
}

const temporary = values.data === undefined ? mkdtempSync(join(tmpdir(), 'credence-auc-')) : undefined;
const stores = await openStores(values.data ?? temporary, Date.now);
try {
  if (temporary !== undefined) {
    const file = join(temporary, 'actions.ndjson');
    writeFileSync(file, toNdjson(parseRatings(readFileSync(csv, 'utf8'))));
    const { recorded, seconds } = await importActions(stores, file, { clock: Date.now });
    process.stdout.write(`${recorded} ratings imported in ${seconds.toFixed(1)} s\n`);
  }
  const started = performance.now();
  const { scores, reliabilities, members } = await replay(stores.eventStore);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const bad = scores.filter(({ good }) => !good).length;
  process.stdout.write(
    `${scores.length} ratings of members rated before (${bad} bad ones), ${members} members, replayed in ${seconds} s\n` +
      `AUC of score:       ${auc(scores).toFixed(4)}\n` +
      `AUC of reliability: ${auc(reliabilities).toFixed(4)}\n`,
  );
} finally {
  await closeStores(stores);
  if (temporary !== undefined) rmSync(temporary, { recursive: true, force: true });
}

/** Folds the log; notes what stood before each action, seen at the time of the action, and what the action was. */
async function replay(store) {
  const states = new Map();
  const scores = [];
  const reliabilities = [];
  for await (const slice of store.readAll(0)) {
    for (const recorded of slice) {
      const subject = subjectOf(decodeEvent(recorded));
      if (!subject) continue;
      const { tris_id, event } = subject;
      const state = states.get(tris_id) ?? newIdentity();
      if (event.type === 'ActionRelayed' && state.actions > 0) {
        const good = !isFlags(event.data.metric);
        const { score } = standingOf(ledgerOf(state.evidence, MODEL_LENS), state.bad_status?.level ?? null);
        scores.push({ value: score, good });
        reliabilities.push({ value: reliability(state.evidence, MODEL_LENS, event.occurred_at), good });
      }
      evolve(state, event);
      states.set(tris_id, state);
    }
  }
  return { scores, reliabilities, members: states.size };
}

/** The probability that a good case has the higher value than a bad one, a tie counting half (Mann-Whitney U). */
function auc(cases) {
  const byValue = new Map();
  for (const { value, good } of cases) {
    const counts = byValue.get(value) ?? { good: 0, bad: 0 };
    counts[good ? 'good' : 'bad']++;
    byValue.set(value, counts);
  }
  let below = 0;
  let wins = 0;
  let good = 0;
  for (const [, counts] of [...byValue].sort(([a], [b]) => a - b)) {
    wins += counts.good * (below + counts.bad / 2);
    below += counts.bad;
    good += counts.good;
  }
  return wins / (good * below);
}
