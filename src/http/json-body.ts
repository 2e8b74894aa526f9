import { isUtf8 } from 'node:buffer';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { NEWLINE, isBlank } from '../kernel/lines.js';
import { type FieldError, Problem, refusal } from '../kernel/problems.js';
import { isExact, parseJsonText, pointerTo, shorten } from '../kernel/json.js';

export const BODY_LIMIT = 1024 * 1024;
/** Of a public route: reading a body of 1 MiB that has thousands of fields takes a fifth of a second. */
export const PUBLIC_BODY_LIMIT = 64 * 1024;
const MAX_DEPTH = 32;
export const NDJSON = 'application/x-ndjson';

/** A list in a body, under a name, of at most so many items. Its items are judged one by one. */
export interface ListOfBody {
  name: string;
  most: number;
}

/**
 * Bodies are `application/json` in UTF-8. In addition to JSON.parse, this refuses what other parsers would read
 * differently (duplicate names, numbers that a double cannot hold) and what could not be stored (lone surrogates,
 * infinities), so that no later step has to check for it. A body that is a list may also be sent as NDJSON.
 * @param admit called before a body is parsed, which begins once its promise has resolved
 * @param listOf the list that the body of a request is
 */
export function registerJsonBody(
  fastify: FastifyInstance,
  admit: (request: FastifyRequest) => Promise<void> | undefined,
  listOf: (request: FastifyRequest) => ListOfBody | undefined,
): void {
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser(['application/json', NDJSON], { parseAs: 'buffer' }, (request, body, done) => {
    try {
      const list = listOf(request);
      const isLines = /^\s*application\/x-ndjson/i.test(request.raw.headers['content-type']!);
      if (isLines && !list) {
        throw new Problem('unsupported_media_type', 'The body must be sent as application/json in UTF-8.');
      }
      const { 'content-type': type, 'content-encoding': encoding } = request.raw.headers;
      const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(type ?? '')?.[1];
      if (charset && charset.toLowerCase() !== 'utf-8') {
        throw new Problem('unsupported_media_type', `The charset must be utf-8, not ${JSON.stringify(charset)}.`);
      }
      if (encoding && encoding !== 'identity') {
        throw new Problem('unsupported_media_type', 'The body must be sent without a Content-Encoding.');
      }
      const parsed = () => {
        if (isLines) return { [list!.name]: parseLines(body as Buffer, list!.most + 1) };
        return body.length === 0 ? undefined : parseJson(body as Buffer, list);
      };
      const admitting = admit(request);
      if (admitting) admitting.then(parsed).then((value) => done(null, value), done);
      else done(null, parsed());
    } catch (error) {
      done(error as Error);
    }
  });
}

/** The value of each line that is not blank, or why it is refused. @param most further lines are not read */
export function parseLines(bytes: Buffer, most: number): unknown[] {
  const items: unknown[] = [];
  for (let start = 0; start < bytes.length && items.length < most;) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline;
    const line = bytes.subarray(start, end);
    start = end + 1;
    if (isBlank(line)) continue;
    try {
      items.push(parseJson(line));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      items.push(new Problem(error.code, error.message.replace(/^The body/, 'The line'), error.extra));
    }
  }
  return items;
}

/**
 * @param list its items are judged one by one: in the place of one with a flaw is a Problem
 * @throws Problem malformed_json or validation_failed
 */
export function parseJson(bytes: Buffer, list?: ListOfBody): unknown {
  if (!isUtf8(bytes)) throw new Problem('malformed_json', 'The body is not valid UTF-8.');
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    value = parseJsonText(text);
  } catch (error) {
    throw new Problem('malformed_json', `The body is not JSON: ${(error as Error).message}.`);
  }
  const errors: FieldError[] = [];
  const members = inspect(value, '', 1, errors);
  if (errors.length > 0 && !(list && putInPlace(errors, value, list))) throw refusal(errors);
  if (members !== countMembers(text)) {
    const name = duplicateName(text);
    throw new Problem('malformed_json', `The name ${JSON.stringify(shorten(name))} occurs twice in one object.`);
  }
  return value;
}

/** Puts flaws in the place of the items that have them. @returns false if something else has a flaw, too */
function putInPlace(errors: readonly FieldError[], value: unknown, { name, most }: ListOfBody): boolean {
  const items = (value as Record<string, unknown>)[name];
  if (!Array.isArray(items) || items.length > most) return false;
  const byItem = new Map<number, FieldError[]>();
  for (const error of errors) {
    const [, list, index, ...path] = error.pointer.split('/');
    if (list !== name || index === undefined) return false;
    const own = { ...error, pointer: path.map((part) => `/${part}`).join('') };
    const others = byItem.get(Number(index));
    if (others) others.push(own);
    else byItem.set(Number(index), [own]);
  }
  for (const [index, own] of byItem) items[index] = refusal(own);
  return true;
}

/** Collects what cannot be accepted; returns the number of members of all objects. */
function inspect(value: unknown, pointer: string, depth: number, errors: FieldError[]): number {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) {
        errors.push({ pointer, code: 'ill_formed_text', message: 'the text has a surrogate without its other half' });
      }
      return 0;
    case 'number':
      if (!isExact(value)) {
        const message =
          'the number cannot be kept exactly: an integer beyond 2^53 - 1, beyond the range of a double, or -0';
        errors.push({ pointer, code: 'unsafe_number', message });
      }
      return 0;
    case 'object':
      break;
    default:
      return 0;
  }
  if (value === null) return 0;
  if (depth > MAX_DEPTH) {
    errors.push({ pointer, code: 'too_deep', message: `a body may have at most ${MAX_DEPTH} levels` });
    return 0;
  }
  let members = 0;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item: unknown = value[i];
      if (item !== null && typeof item !== 'boolean') members += inspect(item, `${pointer}/${i}`, depth + 1, errors);
    }
    return members;
  }
  for (const [name, member] of Object.entries(value)) {
    members++;
    // A very long name is shortened in the pointer.
    const at = pointerTo(pointer, shorten(name).toWellFormed());
    if (name === '__proto__' || name === 'constructor' || name === 'prototype') {
      errors.push({
        pointer: at,
        code: 'unknown_field',
        message: `${JSON.stringify(name)} cannot be the name of a field`,
      });
    } else if (!name.isWellFormed()) {
      const message = 'the name has a surrogate without its other half';
      errors.push({ pointer: at, code: 'ill_formed_text', message });
    }
    if (member !== null && typeof member !== 'boolean') members += inspect(member, at, depth + 1, errors);
  }
  return members;
}

/** Counts the members in a JSON text: the colons outside strings. More members than keys means a duplicate name. */
function countMembers(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0x3a) count++;
    else if (unit === 0x22) i = endOfString(text, i);
  }
  return count;
}

/** Index of the quotation mark that ends the string begun at `start`. The text is known to be well-formed. */
function endOfString(text: string, start: number): number {
  let end = start;
  for (;;) {
    end = text.indexOf('"', end + 1);
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === 0x5c) escapes++;
    if (escapes % 2 === 0) return end;
  }
}

function duplicateName(text: string): string {
  const open: Set<string>[] = [];
  let last = '';
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === '"') {
      const end = endOfString(text, i);
      last = JSON.parse(text.slice(i, end + 1)) as string;
      i = end;
    } else if (char === '{' || char === '[') open.push(new Set());
    else if (char === '}' || char === ']') open.pop();
    else if (char === ':') {
      const names = open.at(-1)!;
      if (names.has(last)) return last;
      names.add(last);
    }
  }
  return last;
}
