import { TRIS_ID, TRIS_ID_FORM } from '../kernel/identifiers.js';

/** Exit codes: 0 success, 1 a finding or a failure, 2 wrong usage. */
export const EXIT = { ok: 0, finding: 1, usage: 2 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Wrong usage. The message is one sentence. Exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command failed. The message is one sentence. Exit code 1. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
}

/** The value that a text names. @throws UsageError with the message if it names none */
export function chosen<T extends string>(values: readonly T[], text: string, message: string): T {
  const value = values.find((one) => one === text);
  if (value === undefined) throw new UsageError(message);
  return value;
}

/** The TRIS id of an argument. @throws UsageError */
export function checkedTrisId(text: string): string {
  if (TRIS_ID.test(text)) return text;
  throw new UsageError(`"${text}" is not a TRIS id: ${TRIS_ID_FORM}.`);
}
