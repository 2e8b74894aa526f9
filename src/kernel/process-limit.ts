import { readFileSync } from 'node:fs';

/**
 * A limit of this process, in the unit of `/proc/self/limits`; Infinity if there is none, or the system does not tell.
 * @param name as that file names it, such as `Max open files`
 */
export function processLimit(name: string): number {
  try {
    const [, limit] = new RegExp(`^${name}\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return limit === undefined ? Infinity : Number(limit);
  } catch {
    return Infinity;
  }
}
