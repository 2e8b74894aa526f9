import type { Position } from '../../kernel/event.js';
import type { LmdbEnvironment } from './environment.js';
import { CHECKED_FROM, COMPACT_FROM, positionIn, putPosition } from './log-meta.js';
import { isOld, mostBytes, readEntry, writeEntry } from './stored-event.js';

/** The number of events that an upgrade writes in one transaction. */
const UPGRADE_SLICE = 1_000;

/**
 * Writes every event that an older build stored in the present form, from the newest to the oldest. An interrupted
 * upgrade continues where it stopped. A damaged event stays as it is.
 * @param head the last position
 * @param checkedFrom the first position from which on every event has a checksum
 * @returns the number of events written
 */
export async function upgradeEvents(
  env: LmdbEnvironment,
  head: Position,
  checkedFrom: Position,
  onProgress: (done: number, total: number) => void,
): Promise<number> {
  let next = env.read(() => positionIn(env, COMPACT_FROM)) ?? head + 1;
  const total = next - 1;
  let written = 0;
  while (next > 1) {
    const from = Math.max(1, next - UPGRADE_SLICE);
    const to = next - 1;
    written += await env.grow(() => rewrite(env, from, to, checkedFrom));
    next = from;
    onProgress(total - from + 1, total);
  }
  return written;
}

/** Within a write transaction. @returns the number of events written */
function rewrite(env: LmdbEnvironment, from: Position, to: Position, checkedFrom: Position): number {
  const events = env.database<Buffer, number>('events');
  const entries: { position: Position; entry: Buffer; isNew: boolean }[] = [];
  for (let position = from; position <= to; position++) {
    const entry = events.getBinary(position);
    if (!entry) continue;
    const written = isOld(entry) ? rewritten(entry, position, position >= checkedFrom) : undefined;
    entries.push({ position, entry: written ?? entry, isNew: written !== undefined });
  }
  const isNew = entries.filter((entry) => entry.isNew).length;
  if (isNew > 0) {
    // Removed first: in their places, smaller entries would leave the pages half empty.
    for (const { position } of entries) events.removeSync(position);
    for (const { position, entry } of entries) events.putSync(position, entry);
  }
  putPosition(env, COMPACT_FROM, from);
  if (from === 1) putPosition(env, CHECKED_FROM, 1);
  return isNew;
}

/** The present form of an event that an older build stored; undefined if it would not come back as the same JSON. */
function rewritten(entry: Buffer, position: Position, mustBeChecked: boolean): Buffer | undefined {
  const event = readEntry(entry, entry.length, position, mustBeChecked);
  if (event.damage) return undefined;
  const bytes = Buffer.alloc(mostBytes(event.stream, entry.length));
  const length = writeEntry(bytes, 0, event);
  const again = readEntry(bytes, length, position, true);
  return JSON.stringify(again) === JSON.stringify(event) ? bytes.subarray(0, length) : undefined;
}
