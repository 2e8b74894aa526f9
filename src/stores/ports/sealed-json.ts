import { crc32 } from 'node:zlib';

/** Small records that are stored with their checksum (docs/decisions/0024). */

const START = ',"crc":"';
const LENGTH = START.length + 8 + 2;

/**
 * A small record as JSON text whose last member, `crc`, is the CRC-32 of everything before it, seeded with the CRC-32 of
 * the key it is stored under.
 * @param value an object with members
 */
export function sealedJson(key: string, value: object): string {
  const body = JSON.stringify(value).slice(0, -1);
  return body + seal(key, body);
}

/** The value of a stored text; undefined if there is none, or if it differs from what was written. */
export function unsealedJson<T extends object>(key: string, text: string | undefined): T | undefined {
  if (text === undefined) return undefined;
  const body = text.slice(0, -LENGTH);
  return text.slice(-LENGTH) === seal(key, body) ? (JSON.parse(`${body}}`) as T) : undefined;
}

function seal(key: string, body: string): string {
  return `${START}${crc32(body, crc32(key)).toString(16).padStart(8, '0')}"}`;
}
