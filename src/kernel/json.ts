export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** RFC 6901: `~` and `/` within a name are escaped. */
export const pointerTo = (parent: string, name: string | number): string =>
  `${parent}/${typeof name === 'string' && /[~/]/.test(name) ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name}`;

/** The first sixty characters of a text. */
export const shorten = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
