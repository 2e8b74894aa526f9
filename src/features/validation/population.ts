import { setImmediate } from 'node:timers/promises';
import type { IdentityState } from '../../../projections/identities.js';
import { rebuilding } from '../../kernel/problems.js';
import type { Manifest, ReadModels } from '../../stores/ports/read-models.js';

/** Rows read at once: a few milliseconds' work, after which others have their turn. */
const PAGE = 250;

/** Where a pass over the population reads. */
export interface Population {
  generation: string;
  /** Position applied when the pass began; what changed during the pass may or may not be in it. */
  position: number;
  /** Identities, where the store can tell; else 0. */
  total: number;
}

/** @throws Problem projection_rebuilding */
export async function openPopulation(readModels: ReadModels, manifest: Manifest): Promise<Population> {
  const generation = manifest.views['identities'];
  const read = generation === undefined ? undefined : await readModels.read(generation, []);
  if (generation === undefined || read?.status !== 'ready') throw rebuilding('the identities are built anew');
  const total = (await readModels.count?.(generation, 'identities')) ?? 0;
  return { generation, position: read.checkpoint.position, total };
}

/**
 * Visits every identity exactly once, in pages between which everything else runs.
 * @throws Problem projection_rebuilding if the generation is dropped meanwhile; the signal's reason once it aborts
 */
export async function eachIdentity(
  readModels: ReadModels,
  { generation }: Population,
  signal: AbortSignal,
  visit: (trisId: string, state: IdentityState) => void,
  onPage: (done: number) => void | Promise<void> = () => undefined,
): Promise<void> {
  let done = 0;
  let cursor: string | null = null;
  do {
    const page = await readModels.scan(generation, 'identities', cursor, PAGE);
    for (const { row, value } of page.rows) visit(row.key, value as unknown as IdentityState);
    done += page.rows.length;
    await onPage(done);
    await setImmediate();
    signal.throwIfAborted();
    ({ cursor } = page);
  } while (cursor !== null);
  // A dropped generation pages as an empty one.
  if (!(await readModels.read(generation, []))) throw rebuilding('the identities are built anew');
}
