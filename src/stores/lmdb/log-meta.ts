import { crc32 } from 'node:zlib';
import type { Position } from '../../kernel/event.js';
import type { LmdbEnvironment } from './environment.js';

/** What a log says about itself, beside its events: its id, and from where on its entries are of the present form. */

export const LOG_ID = 'log';
/** Of a log to which only builds before the present form of events have written. */
export const OLD_LOG_ID = 'log_id';
/** The first position from which on every event has a checksum. */
export const CHECKED_FROM = 'checksums_from';
/** The first position from which on no event is left that an upgrade would write. */
export const COMPACT_FROM = 'compact_from';

export function logIdIn(env: LmdbEnvironment): string | undefined {
  const meta = env.database<string | undefined>('meta');
  return meta.get(LOG_ID) ?? meta.get(OLD_LOG_ID);
}

interface CheckedPosition {
  position: Position;
  crc: number;
}

/** Undefined if the stored value is absent or damaged. */
export function positionIn(env: LmdbEnvironment, name: string): Position | undefined {
  try {
    const stored = env.database<CheckedPosition | undefined>('meta').get(name);
    return stored && stored.crc === crc32(String(stored.position)) ? stored.position : undefined;
  } catch {
    return undefined;
  }
}

/** Call it in a write transaction. */
export function putPosition(env: LmdbEnvironment, name: string, position: Position): void {
  env.database<CheckedPosition>('meta').putSync(name, { position, crc: crc32(String(position)) });
}
