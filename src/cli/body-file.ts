import { readFileSync } from 'node:fs';
import { parseJson } from '../http/json-body.js';
import { Problem } from '../kernel/problems.js';
import { UsageError } from './exit.js';

const REASONS: Record<string, string> = { ENOENT: 'does not exist', EISDIR: 'is a folder', EACCES: 'is not readable' };

/**
 * A file with the body of a request, checked as that is.
 * @throws UsageError if it cannot be read, Problem if it is not JSON
 */
export function readBodyFile(file: string): unknown {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw unreadable(file, error);
  }
  try {
    return parseJson(bytes);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new Problem(error.code, error.message.replace(/^The body/, file), error.extra);
  }
}

export function unreadable(file: string, error: unknown): UsageError {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  return new UsageError(`${file} ${REASONS[code] ?? `cannot be read (${code})`}.`);
}
