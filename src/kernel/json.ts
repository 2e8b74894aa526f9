export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/**
 * @param isSecret the message quotes nothing of the text, as that of JSON.parse would
 * @throws SyntaxError that says where the text is not JSON
 */
export function parseJsonText(text: string, isSecret = false): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(whereItBreaks(text, error as Error, isSecret));
  }
}

function whereItBreaks(text: string, error: Error, isSecret: boolean): string {
  if (text.startsWith('\ufeff')) return 'it begins with a byte order mark';
  const position = /position (\d+)/.exec(error.message)?.[1];
  if (position === undefined) {
    if (/end of JSON/.test(error.message)) return 'it ends too early';
    // Of some errors Node does not say the position, but quotes up to twenty characters around it.
    const quoted = /^(?:Unexpected token '.+?', (?:\.{3})?)?"(.*)"(?:\.{3})? is not valid JSON$/s.exec(
      error.message,
    )?.[1];
    return quoted === undefined || isSecret ? 'unexpected text' : `unexpected text in ${JSON.stringify(quoted)}`;
  }
  const lines = text.slice(0, Number(position)).split('\n');
  return `unexpected text at line ${lines.length}, column ${lines.at(-1)!.length + 1}`;
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether every reader of JSON gets this number back: a finite double that is no integer beyond 2^53 - 1 and not -0. */
export const isExact = (value: number): boolean =>
  Number.isFinite(value) && !Object.is(value, -0) && (!Number.isInteger(value) || Number.isSafeInteger(value));

/** RFC 6901: `~` and `/` within a name are escaped. */
export const pointerTo = (parent: string, name: string | number): string =>
  `${parent}/${typeof name === 'string' && /[~/]/.test(name) ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name}`;

/** The first sixty characters of a text. */
export const shorten = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
