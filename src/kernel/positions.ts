import type { Position } from './event.js';

/** Lets a read wait until the read models have applied a write. */
export interface PositionGate {
  /** Identifies the log; the first part of every position on the wire. */
  readonly logId: string;
  /** Whether the position is 0 or the log has an event there. */
  has(position: Position): Promise<boolean>;
  /** Resolves to true once every serving projection has applied this position, or to false after `timeoutMs`. */
  waitForPosition(position: Position, timeoutMs: number): Promise<boolean>;
  /**
   * Refuses commands while the read models are known not to be those of this log, or to have lost rows. Undefined if
   * they were found in order a moment ago; resolves if they are, or give no answer.
   * @throws Problem or StoreUnavailable: log_replaced, read_models_foreign, read_models_damaged
   */
  refuseCommands(): Promise<void> | undefined;
}
export const POSITION_GATE = Symbol('PositionGate');

/** The number of digits as one character. */
const COUNTS = '0123456789abcdefg';
/** What `sortByPosition` makes. */
export const POSITION_SORT = /^[1-9a-g]\d{1,16}$/;

/** A position as a sort key: the number of its digits, then these. Byte order is numeric order. */
export function sortByPosition(position: Position): string {
  const digits = String(position);
  return COUNTS[digits.length]! + digits;
}

/** The position of a sort key, after which another part may follow. */
export const positionOf = (sort: string): Position => Number.parseInt(sort.slice(1), 10);

/** Opaque to clients: `<log id>.<decimal>`. */
export const formatPosition = (logId: string, position: Position): string => `${logId}.${position}`;

/** Reads what `formatPosition` wrote; undefined for another log or another form. */
export function parsePosition(wire: string, logId: string): Position | undefined {
  if (!wire.startsWith(`${logId}.`)) return undefined;
  const digits = wire.slice(logId.length + 1);
  return /^(?:0|[1-9]\d{0,15})$/.test(digits) && Number.isSafeInteger(Number(digits)) ? Number(digits) : undefined;
}
