/** The forms of the identifiers that clients send. A value is accepted as it is or refused, never normalised. */
export const TRIS_ID = /^(?:tris[@:][A-Za-z0-9._:@-]{1,123}|did:[A-Za-z0-9._:@-]{1,124})$/;
/** `TRIS_ID` in words. */
export const TRIS_ID_FORM =
  'it starts with "tris@", "tris:" or "did:", continues with letters, digits or ._:@- and has at most 128 characters';
const ADDRESS_ID = /^(?:tris:|(?:tris|did:pkh):eip155:\d+:)0x[0-9a-f]{40}$/i;
/**
 * The one spelling of a TRIS id. Chains do not distinguish the case of an EVM address, so an id that is an address is in
 * lower case, and its chain id without leading zeros. In every other id the case counts.
 */
export function spellingOf(trisId: string): string {
  return ADDRESS_ID.test(trisId) ? trisId.toLowerCase().replace(/:0+(?=\d+:0x)/, ':') : trisId;
}
export const isMisspelled = (trisId: string): boolean => spellingOf(trisId) !== trisId;
export const PLATFORM_ID = /^[A-Za-z0-9._:@-]{1,100}$/;
/** Prefix of the endorser's name for a platform that no organization owns. No identity can have such a name, in any case. */
export const RESERVED_TRIS = /^tris:platform:/i;
/** Prefix of the platform id (CAIP-2) of a chain that the service reads itself. Nobody can use it, in any case. */
export const RESERVED_PLATFORM = /^eip155:/i;
/** A reference to a validation or access policy. The id of a new policy has a narrower form, with its version. */
export const POLICY_REF = /^[A-Za-z0-9_]{1,128}$/;
export const ACTION_TYPE = /^[a-z][a-z0-9_]{0,63}$/;
export const REASON_CODE = /^[a-z][a-z0-9_]{0,63}$/;
/** 1 to 200 printable ASCII characters, without spaces at either end. */
export const EXTERNAL_ID = /^[!-~](?:[ -~]{0,198}[!-~])?$/;
export const IDEMPOTENCY_KEY = /^[!-~](?:[ -~]{0,253}[!-~])?$/;
export const REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/;
/** A UUID in lower case. */
export const EVENT_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const SHA256_HEX = /^[0-9a-f]{64}$/;

const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** An RFC 3339 year has four digits, in UTC too. */
export const FIRST_TIME = Date.parse('0000-01-01T00:00:00.000Z');
const LAST_TIME = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Reads an RFC 3339 section 5.6 date-time with an offset.
 * @returns milliseconds since the Unix epoch (finer fractions are cut off), or undefined when the text has another form
 * or names no valid moment: 30 February, 24:00, an offset beyond ±23:59, or a UTC year outside 0000 to 9999. A leap
 * second (:60) is refused, too.
 */
export function parseTimestamp(text: string): number | undefined {
  const match = TIMESTAMP.exec(text);
  if (!match) return undefined;
  const [year, month, day] = match.slice(1, 4).map(Number) as [number, number, number];
  const [hour, minute, second] = match.slice(4, 7).map(Number) as [number, number, number];
  const [offsetHour, offsetMinute] = [Number(match[9] ?? 0), Number(match[10] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const millisecond = Number((match[7] ?? '').slice(0, 3).padEnd(3, '0'));
  const date = new Date(0);
  // Date.UTC would read the years 0 to 99 as 1900 to 1999.
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const offset = (offsetHour * 60 + offsetMinute) * (match[8] === '-' ? -1 : 1);
  const time = date.setUTCHours(hour, minute, second, millisecond) - offset * 60_000;
  return time < FIRST_TIME || time > LAST_TIME ? undefined : time;
}
