export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

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
