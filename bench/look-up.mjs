import { randomUUID } from 'node:crypto';
import { identityRow } from '../dist/projections/identities.js';
import { IdentityReader } from '../dist/src/disc/identity-reader.js';
import { score } from '../dist/src/disc/score.js';
import { ValidationPolicies } from '../dist/src/policies/vp/validation-policies.js';
import { Views } from '../dist/src/projector/views.js';
import { ensureManifest } from '../dist/src/projector/manifest.js';
import { PROJECTIONS } from '../dist/src/projector/all-projections.js';
import { addAction } from '../dist/src/scoring/evidence.js';
import { closeStores, openStores } from '../dist/src/stores.js';
import { inTemporaryFolder, interleave } from './measure.mjs';

const LOOKUPS = 5_000;

/** Microseconds per score of a random identity, among 10^3 and among `many` identities. */
export function lookUp(rounds, many = 1_000_000) {
  return inTemporaryFolder(async (folder) => {
    const few = await populated(`${folder}/few`, 1_000);
    const full = await populated(`${folder}/many`, many);
    const result = await interleave(rounds, { ours: () => microseconds(full), peer: () => microseconds(few) });
    await Promise.all([closeStores(few.stores), closeStores(full.stores)]);
    return result;
  });
}

/** A generation with rows of identities and no log behind them. */
async function populated(data, identities) {
  const stores = await openStores(data, Date.now);
  const { readModels, eventStore } = stores;
  const { views } = await ensureManifest(PROJECTIONS, eventStore, readModels);
  const id = views.identities;
  await readModels.acquireLease(id, 'bench', 3_600_000);
  const state = {
    evidence: {},
    actions: 5,
    bad_status: null,
    verifications: [],
    changed: 1,
    latest: 1,
    dead_letters: [],
  };
  for (let k = 0; k < 5; k++)
    addAction(state.evidence, 'financial_loan_repayment', k, Date.now() - k * 86_400_000 * 30);
  const base = { log: eventStore.logId, position: 0, event_id: null };
  for (let from = 0; from < identities; from += 10_000) {
    const puts = Array.from({ length: Math.min(10_000, identities - from) }, (_, n) => ({
      row: identityRow(`tris:identity-${from + n}`),
      value: state,
    }));
    await readModels.apply(id, { id: randomUUID(), base, holder: 'bench', next: base, puts, deletes: [] });
  }
  await readModels.setStatus(id, 'ready');
  return { stores, identities };
}

async function microseconds({ stores, identities }) {
  const views = new Views(stores.eventStore, stores.readModels);
  const reader = new IdentityReader(views, Date.now, new ValidationPolicies(stores.eventStore));
  const started = performance.now();
  for (let n = 0; n < LOOKUPS; n++) {
    const trisId = `tris:identity-${Math.floor(Math.random() * identities)}`;
    score(await reader.see(trisId, {}), stores.eventStore.logId);
  }
  return (1000 * (performance.now() - started)) / LOOKUPS;
}
