import { randomUUID } from 'node:crypto';
import { identityRow } from '../dist/projections/identities.js';
import { IdentityReader } from '../dist/src/features/disc/identity-reader.js';
import { score } from '../dist/src/features/disc/score.js';
import { Lenses } from '../dist/src/features/lenses/lenses.js';
import { Views } from '../dist/src/read-side/views.js';
import { ensureManifest } from '../dist/src/read-side/manifest.js';
import { PROJECTIONS } from '../dist/src/read-side/all-projections.js';
import { addAction } from '../dist/src/scoring/evidence.js';
import { MODEL } from '../dist/src/scoring/model.js';
import { EncodedRows } from '../dist/src/stores/ports/encoded-rows.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { inTemporaryFolder, interleave } from './measure.mjs';

const LOOKUPS = 20_000;

/** Microseconds per score of a random identity, among 10^3 and among `many` identities. */
export function lookUp(rounds, many = 1_000_000) {
  return inTemporaryFolder(async (folder) => {
    const few = await openStores(`${folder}/few`, Date.now);
    const full = await openStores(`${folder}/many`, Date.now);
    await populate(few, 1_000);
    await populate(full, many);
    const microseconds = async (stores, identities) => 1e6 / (await lookUpsOf(stores, identities, 1));
    const result = await interleave(rounds, {
      ours: () => microseconds(full, many),
      peer: () => microseconds(few, 1_000),
    });
    await Promise.all([closeStores(few), closeStores(full)]);
    return result;
  });
}

/**
 * Microseconds per score of a random identity by disc-2 (`ours`) and by disc-1, each identity with that many actions of
 * eight metrics within a year.
 */
export function modelReads(rounds, actions) {
  const identities = 200;
  return inTemporaryFolder(async (folder) => {
    const stores = await openStores(folder, Date.now);
    await populate(stores, identities, evidenceOf(actions));
    const reads = LOOKUPS / Math.ceil(actions / 10);
    const microseconds = async (model) => 1e6 / (await lookUpsOf(stores, identities, 1, { model }, reads));
    const result = await interleave(rounds, { ours: () => microseconds('disc-2'), peer: () => microseconds('disc-1') });
    await closeStores(stores);
    return result;
  });
}

function evidenceOf(actions) {
  const evidence = {};
  for (let n = 0; n < actions; n++) {
    const metric = n % 8 === 7 ? 'compliance_moderation_flags' : `${MODEL.categories[n % 7]}_kind_${n % 8}`;
    addAction(evidence, metric, n % 5, Date.now() - ((n * 7_919) % 365) * 86_400_000);
  }
  return { actions, evidence };
}

/** Makes a generation with rows of identities and no log behind them. */
export async function populate({ readModels, eventStore }, identities, more = {}) {
  const { views } = await ensureManifest(PROJECTIONS, eventStore, readModels);
  const id = views.identities;
  await readModels.acquireLease(id, 'bench', 3_600_000);
  const state = {
    events: 5,
    recorded: 0,
    earned: 350,
    flagged: 0,
    evidence: {},
    actions: 5,
    bad_status: null,
    verifications: [],
    // Not beyond the checkpoint, or each look-up would fold a past.
    changed: 0,
    latest: 0,
    stamped: 0,
    dead_letters: [],
  };
  for (let k = 0; k < 5; k++)
    addAction(state.evidence, 'financial_loan_repayment', k, Date.now() - k * 86_400_000 * 30);
  Object.assign(state, more);
  const base = { log: eventStore.logId, position: 0, event_id: null };
  for (let from = 0; from < identities; from += 10_000) {
    const puts = new EncodedRows();
    for (let n = from; n < Math.min(from + 10_000, identities); n++) puts.put(identityRow(`tris:identity-${n}`), state);
    await readModels.apply(id, { id: randomUUID(), base, holder: 'bench', next: base, puts, deletes: [] });
  }
  await readModels.setStatus(id, 'ready');
  await readModels.releaseLease(id, 'bench');
}

/** Scores of random identities, so many at a time: per second. */
export async function lookUpsOf(stores, identities, inFlight, selector = {}, lookUps = LOOKUPS) {
  const views = new Views(stores.eventStore, stores.readModels);
  const reader = new IdentityReader(views, Date.now, new Lenses(stores.eventStore));
  const started = performance.now();
  let left = lookUps;
  const reading = async () => {
    while (left-- > 0) {
      const trisId = `tris:identity-${Math.floor(Math.random() * identities)}`;
      score(await reader.snapshot(trisId, selector), stores.eventStore.logId);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, reading));
  return (1000 * lookUps) / (performance.now() - started);
}
