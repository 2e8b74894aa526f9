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

/** Opaque to clients: `<log id>.<decimal>`. */
export const formatPosition = (logId: string, position: Position): string => `${logId}.${position}`;

/** Reads what `formatPosition` wrote; undefined for another log or another form. */
export function parsePosition(wire: string, logId: string): Position | undefined {
  if (!wire.startsWith(`${logId}.`)) return undefined;
  const digits = wire.slice(logId.length + 1);
  return /^(?:0|[1-9]\d{0,15})$/.test(digits) && Number.isSafeInteger(Number(digits)) ? Number(digits) : undefined;
}
