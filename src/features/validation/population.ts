import { setImmediate } from 'node:timers/promises';
import type { IdentityState } from '../../../projections/identities.js';
import { rebuilding } from '../../kernel/problems.js';
import type { Manifest, ReadModels } from '../../stores/ports/read-models.js';

/** Rows in a page: a few milliseconds of work, after which the event loop can do other work. */
const PAGE = 250;

/** The source of a pass over the population. */
export interface Population {
  generation: string;
  /** Position applied when the pass began. Changes during the pass may or may not be included. */
  position: number;
  /** Number of identities; 0 if the store does not know it. */
  total: number;
}

/** @throws Problem projection_rebuilding */
export async function openPopulation(readModels: ReadModels, manifest: Manifest): Promise<Population> {
  const generation = manifest.views['identities'];
  const read = generation === undefined ? undefined : await readModels.read(generation, []);
  if (generation === undefined || read?.status !== 'ready') throw rebuilding('the identities are being rebuilt');
  const total = (await readModels.count?.(generation, 'identities')) ?? 0;
  return { generation, position: read.checkpoint.position, total };
}

/**
 * Visits every identity exactly once, in pages. Between pages the event loop can do other work.
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
  // A dropped generation looks like an empty one.
  if (!(await readModels.read(generation, []))) throw rebuilding('the identities are being rebuilt');
}
