import fc from 'fast-check';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import type { ReadModels } from '../../src/stores/ports/read-models.js';
import { logs, logsOfLarge } from '../projections/arbitrary-log.js';
import type { Given } from '../projections/log.js';

/** For suites that compare ways of building a generation. */

/** Several short logs of other identities each, and one with a large identity. */
export function severalLogs(): Given[] {
  const parts = fc.sample(fc.tuple(logs, logs, logs, logs, logs, logs, logsOfLarge), 1)[0]!;
  return parts.flatMap((part, n) =>
    part.map((event) => {
      const text = JSON.stringify(event).replace(/tris:(alice|bob)/g, `tris:$1-${n}`);
      return JSON.parse(text.replaceAll('c'.repeat(64), String(n).repeat(64))) as Given; // trove records
    }),
  );
}

/** The rows of every view, with the checkpoint and the status of the generation. */
export async function contentOf(models: ReadModels, id: string): Promise<string[]> {
  const { checkpoint, status } = (await models.generations()).find((generation) => generation.id === id)!;
  const rows = [JSON.stringify({ checkpoint, status })];
  for (const view of PROJECTIONS.flatMap(({ views }) => views)) {
    for (let cursor: string | null = null; ;) {
      const page = await models.scan(id, view, cursor, 1_000);
      rows.push(...page.rows.map((row) => JSON.stringify(row)));
      if (page.cursor === null) break;
      cursor = page.cursor;
    }
  }
  return rows;
}
