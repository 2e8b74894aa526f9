import { setImmediate } from 'node:timers/promises';
import { UNATTRIBUTED } from '../../../projections/dead-letters.js';
import { type IdentityRow, type IdentityState, identityRow } from '../../../projections/identities.js';
import { rebuilding } from '../../kernel/problems.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import type { Views } from '../../read-side/views.js';
import type { Lens } from '../../scoring/lens.js';
import type { Manifest, ReadModels } from '../../stores/ports/read-models.js';
import { EvidenceReader } from './evidence-reader.js';
import { lackingMore } from './identity-reader.js';

/** Rows in a page: a few milliseconds of work, after which the event loop can do other work. */
const PAGE = 250;

/**
 * The source of a pass over the population: the generation, the number of identities, and that of damaged events that may
 * be about any of them. Changes after the position, which was applied when the pass began, may or may not be included.
 * @throws Problem projection_rebuilding
 */
export async function openPopulation(readModels: ReadModels, manifest: Manifest) {
  const generation = manifest.views['identities'];
  const read = generation === undefined ? undefined : await readModels.read(generation, []);
  if (generation === undefined || read?.status !== 'ready') throw rebuilding('the identities are being rebuilt');
  const total = await readModels.count(generation, 'identities');
  const letters = manifest.views['dead_letters'];
  const unattributed = letters && (await readModels.read(letters, [{ get: UNATTRIBUTED }]))?.results[0];
  return { generation, position: read.checkpoint.position, total, unattributed };
}

/**
 * Visits every identity exactly once, in pages. Between pages the event loop can do other work.
 * @param lenses the states have at least the evidence that these need
 * @throws Problem projection_rebuilding if the generation is dropped meanwhile; the signal's reason once it aborts
 */
export async function eachIdentity(
  readModels: ReadModels,
  views: Pick<Views, 'readSince'>,
  lenses: readonly Lens[],
  { generation, unattributed }: { generation: string; unattributed?: unknown },
  signal: AbortSignal,
  visit: (state: IdentityState, reader: EvidenceReader) => void,
  onPage: (done: number) => void | Promise<void> = () => undefined,
): Promise<void> {
  let done = 0;
  let cursor: string | null = null;
  do {
    const page = await readModels.scan(generation, 'identities', cursor, PAGE);
    for (const { row, value } of page.rows) {
      const identity = value as unknown as IdentityRow;
      const reader = new EvidenceReader(views, row.key, identity, identity.changed);
      // An await for each would take longer than the visit.
      if (reader.known) visit(lackingMore(reader.known, unattributed), reader);
      else {
        const read = await readModels.read(generation, [{ get: identityRow(row.key) }]);
        if (!read) break;
        const now = new EvidenceReader(views, row.key, read.results[0] as IdentityRow, read.checkpoint.position);
        visit(lackingMore(await now.state(lenses), unattributed), now);
      }
      if (isDue()) await yieldIfDue();
    }
    done += page.rows.length;
    await onPage(done);
    await setImmediate();
    signal.throwIfAborted();
    ({ cursor } = page);
  } while (cursor !== null);
  // A dropped generation looks like an empty one.
  if (!(await readModels.read(generation, []))) throw rebuilding('the identities are being rebuilt');
}
