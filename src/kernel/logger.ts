import type { LoggerService } from '@nestjs/common';
import { BoundedMap } from './bounded-map.js';
import { LOG_LEVELS, type LogLevel } from './config.js';

type Fields = Record<string, unknown>;

const REPEAT_MS = 60_000;
/** The maximum number of reasons remembered. */
const MAX_REASONS = 100;

/**
 * Structured logs: one JSON object a line with `time`, `level`, `msg` and further fields, on standard error. Callers
 * must not log keys, tokens or bodies. Nest writes through it, too (`LoggerService`).
 */
export class Logger implements LoggerService {
  private readonly threshold: number;
  private readonly saidAt = new BoundedMap<string, number>(MAX_REASONS);

  constructor(
    level: LogLevel,
    private readonly sink: (line: string) => void = (line) => void process.stderr.write(line),
  ) {
    this.threshold = LOG_LEVELS.indexOf(level);
  }

  enabled(level: LogLevel): boolean {
    return LOG_LEVELS.indexOf(level) <= this.threshold;
  }

  /** Whether a reason was not told within the last minute: for what would be logged for every request. */
  isNews(reason: string): boolean {
    const now = performance.now();
    if (now - (this.saidAt.get(reason) ?? -Infinity) < REPEAT_MS) return false;
    this.saidAt.set(reason, now);
    return true;
  }

  write(level: LogLevel, msg: string, fields: Fields = {}): void {
    if (!this.enabled(level)) return;
    this.sink(`${JSON.stringify({ time: new Date().toISOString(), level, msg, ...fields }, readable)}\n`);
  }

  info(msg: string, fields?: Fields): void {
    this.write('info', msg, fields);
  }
  warn(msg: unknown, ...rest: unknown[]): void {
    this.write('warn', text(msg), fieldsOf(msg, rest));
  }
  error(msg: unknown, ...rest: unknown[]): void {
    // Nest logs an error of the start with its stack, and also throws it: the caller prints it as one sentence.
    if (/^_?ExceptionHandler$/.test(String(rest.at(-1)))) return;
    this.write('error', text(msg), fieldsOf(msg, rest));
  }
  debug(msg: unknown, ...rest: unknown[]): void {
    this.write('debug', text(msg), fieldsOf(msg, rest));
  }
  /** Nest's own messages (modules, mapped routes) are at debug level. */
  log(msg: unknown, ...rest: unknown[]): void {
    this.debug(msg, ...rest);
  }
}

const text = (msg: unknown): string =>
  typeof msg === 'string' ? msg : msg instanceof Error ? msg.message : JSON.stringify(msg, readable);

/** Our own calls pass an object of fields; Nest passes an optional stack and a context name. */
function fieldsOf(msg: unknown, rest: unknown[]): Fields {
  const fields: Fields = msg instanceof Error ? { error: msg } : {};
  for (const item of rest) {
    if (item instanceof Error) fields.error = item;
    else if (typeof item === 'object' && item !== null) Object.assign(fields, item);
    else if (typeof item === 'string') fields[item.includes('\n') ? 'stack' : 'context'] = item;
  }
  return fields;
}

function readable(_key: string, value: unknown): unknown {
  if (value instanceof Error) return { ...described(value), stack: value.stack, ...causes(value) };
  return typeof value === 'bigint' ? String(value) : value;
}

function described(error: Error): Fields {
  const { name, message, code } = error as NodeJS.ErrnoException;
  return { name, message, ...(code !== undefined && { code }) };
}

const MAX_CAUSES = 5;

/** The chain of causes of an error, outermost first. A full disk, for example, usually appears as a cause. */
function causes(error: Error): Fields {
  const chain: unknown[] = [];
  for (
    let { cause } = error;
    cause !== undefined && chain.length < MAX_CAUSES;
    cause = (cause as Error | null)?.cause
  ) {
    chain.push(cause instanceof Error ? described(cause) : cause);
  }
  return chain.length > 0 ? { causes: chain } : {};
}
