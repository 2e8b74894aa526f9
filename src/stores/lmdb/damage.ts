/** The library's errors for an invalid page, or one with another number than requested. */
const DAMAGE_CODES = new Set([-30796, -30797, -30793]);

export function isDamage(error: unknown): boolean {
  return DAMAGE_CODES.has((error as { code?: number } | undefined)?.code ?? 0);
}

/** Failures for which the data is not to blame, by the library's code or that of the file system. */
const SHORTAGES = new Map<number | string, string>([
  [-30790, 'too many processes and threads read it at once (MDB_READERS_FULL): stop those that are not needed'],
  [23, 'too many files are open on this machine (ENFILE)'],
  [24, 'too many files are open in this process (EMFILE): raise the limit of open files (ulimit -n)'],
]);
SHORTAGES.set('ENFILE', SHORTAGES.get(23)!).set('EMFILE', SHORTAGES.get(24)!);

/** What is missing to open or read a database, and what to do, as a clause; undefined for any other error. */
export function shortageOf(error: unknown): string | undefined {
  return SHORTAGES.get((error as { code?: number | string } | undefined)?.code ?? '');
}
