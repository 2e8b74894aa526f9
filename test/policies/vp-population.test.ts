import { setImmediate } from 'node:timers/promises';
import { newIdentity } from '../../projections/identities.js';
import type { Json } from '../../src/kernel/json.js';
import { eachIdentity, openPopulation } from '../../src/features/disc/population.js';
import type { Manifest, ReadModels } from '../../src/stores/ports/read-models.js';

const keyOf = (i: number) => `tris:${String(i).padStart(6, '0')}`;
/** Identities are small here: their evidence is in their rows. */
const NO_VIEWS = { readSince: () => Promise.reject(new Error('not to be read')) };
const POPULATION = { generation: 'g1', position: 1, total: 0 };

/** Read models of which a pass over the population asks no more than this; `pages` of identities' numbers. */
function serving(pages: readonly (readonly number[])[], status: 'ready' | 'building' = 'ready'): ReadModels {
  const value = newIdentity() as unknown as Json;
  return {
    scan: async (_id: string, view: string, cursor: string | null) => {
      const at = Number(cursor ?? 0);
      const rows = (pages[at] ?? []).map((i) => ({ row: { view, key: keyOf(i) }, value }));
      return { rows, cursor: at + 1 < pages.length ? String(at + 1) : null };
    },
    read: async () => ({ status, checkpoint: { log: 'l', position: 7, event_id: 'e' }, results: [] }),
    count: async () => pages.flat().length,
  } as unknown as ReadModels;
}
const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const never = new AbortController().signal;

describe('a pass over the population', () => {
  test('visits each identity once, page after page', async () => {
    const pages = [upTo(0, 8_000), upTo(8_000, 16_000), upTo(16_000, 30_000)];
    const seen: string[] = [];
    const done: number[] = [];
    await eachIdentity(
      serving(pages),
      NO_VIEWS,
      [],
      POPULATION,
      never,
      (_state, { tris_id }) => void seen.push(tris_id),
      (n) => void done.push(n),
    );
    expect([seen.length, new Set(seen).size, done]).toEqual([30_000, 30_000, [8_000, 16_000, 30_000]]);
  });

  test('ends when it is cancelled, and lets other work run between pages', async () => {
    const stop = new AbortController();
    let turns = 0;
    const others = (async () => {
      for (; !stop.signal.aborted; turns++) await setImmediate();
    })();
    const onPage = (done: number) => void (done >= 300 && stop.abort(new Error('cancelled')));
    const pages = Array.from({ length: 100 }, (_, n) => upTo(n * 10, n * 10 + 10));
    const pass = eachIdentity(serving(pages), NO_VIEWS, [], POPULATION, stop.signal, () => undefined, onPage);
    await expect(pass).rejects.toThrow('cancelled');
    await others;
    expect(turns).toBeGreaterThan(20);
  });

  test('is refused while its generation is built, and when it is dropped meanwhile', async () => {
    const manifest = { views: { identities: 'g1' } } as unknown as Manifest;
    const rebuilding = { code: 'projection_rebuilding' };
    await expect(openPopulation(serving([], 'building'), manifest)).rejects.toMatchObject(rebuilding);
    await expect(openPopulation(serving([]), { views: {} } as Manifest)).rejects.toMatchObject(rebuilding);
    expect(await openPopulation(serving([]), manifest)).toEqual({ generation: 'g1', position: 7, total: 0 });
    const gone = { ...serving([[]]), read: async () => undefined } as unknown as ReadModels;
    await expect(eachIdentity(gone, NO_VIEWS, [], POPULATION, never, () => undefined)).rejects.toMatchObject(
      rebuilding,
    );
  });
});
