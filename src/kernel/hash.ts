import { hash } from 'node:crypto';

/** SHA-256 of a text's UTF-8 bytes, lower-case hex. */
export function sha256Hex(text: string): string {
  return hash('sha256', text);
}

/** SHA-256 of several texts, framed as a JSON array so that ("a", "bc") and ("ab", "c") differ. */
export function hashOf(...parts: readonly string[]): string {
  return sha256Hex(JSON.stringify(parts));
}

/** A UUID of this version (RFC 9562 section 5) of the first bits of a digest in hex. */
export function uuidOf(digest: string, version: 5 | 8): string {
  const variant = '89ab'[parseInt(digest[16]!, 16) % 4];
  const [third, fourth] = [`${version}${digest.slice(13, 16)}`, `${variant}${digest.slice(17, 20)}`];
  return `${digest.slice(0, 8)}-${digest.slice(8, 12)}-${third}-${fourth}-${digest.slice(20, 32)}`;
}

/** Printable ASCII that JSON need not escape: most names and values. */
export const PLAIN = /^[ !#-[\]-~]*$/;

/**
 * JSON Canonicalization Scheme, RFC 8785: members sorted by UTF-16 code units, no white space, numbers and strings as
 * ECMAScript prints them.
 * @throws TypeError for what I-JSON cannot represent: non-finite numbers, lone surrogates, undefined, functions …
 */
export function canonicalJson(value: unknown): string {
  switch (typeof value) {
    case 'string':
      if (PLAIN.test(value)) return `"${value}"`;
      if (!value.isWellFormed()) throw new TypeError('canonical JSON cannot contain a lone surrogate');
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) throw new TypeError(`canonical JSON cannot contain ${value}`);
      return JSON.stringify(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object': {
      if (value === null) return 'null';
      if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
      let members = '';
      for (const key of Object.keys(value).sort()) {
        const separator = members === '' ? '' : ',';
        members += `${separator}${canonicalJson(key)}:${canonicalJson((value as Record<string, unknown>)[key])}`;
      }
      return `{${members}}`;
    }
    default:
      throw new TypeError(`canonical JSON cannot contain a value of type ${typeof value}`);
  }
}

/** Whether a text takes more than `bytes` bytes of UTF-8. */
export function takesMoreThan(bytes: number, text: string): boolean {
  // A UTF-16 code unit takes at most three bytes, so a short text need not be measured.
  return text.length > bytes / 3 && Buffer.byteLength(text) > bytes;
}
