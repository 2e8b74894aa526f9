import { isUtf8 } from 'node:buffer';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { NEWLINE, isBlank } from '../kernel/lines.js';
import { type FieldError, MAX_ERRORS, Problem, refusal, refusalOf } from '../kernel/problems.js';
import { isExact, isObject, parseJsonText, pointerTo, shorten } from '../kernel/json.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';

export const BODY_LIMIT = 1024 * 1024;
/** Of a public route. */
export const PUBLIC_BODY_LIMIT = 64 * 1024;
const MAX_DEPTH = 32;
/**
 * Members and items of arrays that a body may have: several times what any valid one has. The time to read a body grows
 * with this number, and a MiB of `{"a":0,"b":0,` has more than 100,000.
 */
const MAX_VALUES = 5_000;
/** Members that one object may have, also several times what any valid one has: in a wide object, each takes longer. */
const MAX_MEMBERS = 1_000;
/** Of a list, for each item that it may have. An action has up to eight members. */
const VALUES_OF_ITEM = 10;
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
      const { 'content-type': type = '', 'content-encoding': encoding } = request.raw.headers;
      const isLines = /^\s*application\/x-ndjson/i.test(type);
      if (isLines && !list) {
        throw new Problem('unsupported_media_type', 'The body must be sent as application/json in UTF-8.');
      }
      const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(type)?.[1];
      if (charset && charset.toLowerCase() !== 'utf-8') {
        throw new Problem('unsupported_media_type', `The charset must be utf-8, not ${JSON.stringify(charset)}.`);
      }
      if (encoding && encoding.toLowerCase() !== 'identity') {
        throw new Problem('unsupported_media_type', 'The body must be sent without a Content-Encoding.');
      }
      const bytes = body as Buffer;
      const parsed = (): unknown => {
        if (list && isLines) return parseLines(bytes, list).then((items) => ({ [list.name]: items }));
        if (bytes.length === 0) return undefined;
        return list ? parseList(bytes, list) : parseJson(bytes);
      };
      const admitting = admit(request);
      if (admitting || list) {
        Promise.resolve(admitting)
          .then(parsed)
          .then((value) => done(null, value), done);
      } else done(null, parsed());
    } catch (error) {
      done(error as Error);
    }
  });
}

/**
 * The value of each line that is not blank, or why it is refused. Of those that are too many, only one is read.
 * @throws Problem batch_too_large for lines with too many values together
 */
export async function parseLines(bytes: Buffer, list: ListOfBody): Promise<unknown[]> {
  const items: unknown[] = [];
  const budget = { values: list.most * VALUES_OF_ITEM };
  for (let start = 0; start < bytes.length && items.length <= list.most;) {
    if (isDue()) await yieldIfDue();
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline;
    const line = bytes.subarray(start, end);
    start = end + 1;
    if (isBlank(line)) continue;
    try {
      items.push(parseJson(line, budget));
    } catch (error) {
      if (budget.values < 0) throw tooManyValues(list);
      if (!(error instanceof Problem)) throw error;
      items.push(new Problem(error.code, error.message.replace(/^The body/, 'The line'), error.extra));
    }
  }
  return items;
}

/** @param budget how many values it may have; they are subtracted. @throws Problem malformed_json, validation_failed */
export function parseJson(bytes: Buffer, budget = { values: MAX_VALUES }): unknown {
  const { value, text, named } = parse(bytes, budget);
  const errors: FieldError[] = [];
  const members = inspect(value, [], errors);
  if (errors.length > 0) throw refusal(errors);
  if (members !== named) throw repeatedName(text);
  return value;
}

/**
 * Reads a body that is a list. In the place of an item with a flaw is a Problem.
 * @throws Problem malformed_json or validation_failed; batch_too_large for a list with too many values
 */
export async function parseList(bytes: Buffer, list: ListOfBody): Promise<unknown> {
  const { name, most } = list;
  await yieldIfDue();
  const { value, text, named } = parse(bytes, { values: most * VALUES_OF_ITEM }, list);
  await yieldIfDue();
  const given = isObject(value) ? value[name] : undefined;
  const items = Array.isArray(given) && given.length <= most ? (given as unknown[]) : undefined;
  const errors: FieldError[] = [];
  // All but the items.
  let members = inspect(items ? { ...(value as object), [name]: null } : value, [], errors);
  if (errors.length > 0) throw refusal(errors);
  for (const [i, item] of items?.entries() ?? []) {
    members += inspect(item, [name, i], errors);
    if (errors.length > 0) {
      const start = pointerTo(pointerTo('', name), i).length;
      items![i] = refusal(errors.splice(0).map((error) => ({ ...error, pointer: error.pointer.slice(start) })));
    }
    if (isDue()) await yieldIfDue();
  }
  if (members !== named) throw repeatedName(text);
  return value;
}

/** The value of a text, and how many members the text names. @throws Problem */
function parse(
  bytes: Buffer,
  budget: { values: number },
  list?: ListOfBody,
): { value: unknown; text: string; named: number } {
  if (!isUtf8(bytes)) throw new Problem('malformed_json', 'The body is not valid UTF-8.');
  const text = bytes.toString('utf8');
  const named = countMembers(text, budget);
  if (budget.values < 0) throw tooManyValues(list);
  try {
    return { value: parseJsonText(text), text, named };
  } catch (error) {
    throw new Problem('malformed_json', `The body is not JSON: ${(error as Error).message}.`);
  }
}

function repeatedName(text: string): Problem {
  const name = duplicateName(text);
  return new Problem('malformed_json', `The name ${JSON.stringify(shorten(name))} occurs twice in one object.`);
}

function tooManyValues(list: ListOfBody | undefined): Problem {
  if (!list) {
    const message = `a body may have at most ${MAX_VALUES} values: members of objects and items of arrays`;
    return refusalOf('', 'too_many_values', message);
  }
  const { name, most } = list;
  const message = `${name} must list at most ${most}, with at most ${most * VALUES_OF_ITEM} values together`;
  return refusalOf(`/${name}`, 'batch_too_large', message);
}

/** Collects what cannot be accepted. @param path leads to the value. @returns the number of members of all objects */
function inspect(value: unknown, path: (string | number)[], errors: FieldError[]): number {
  if (typeof value === 'string' && !value.isWellFormed()) {
    note(errors, path, 'ill_formed_text', 'the text has a surrogate without its other half');
  }
  if (typeof value === 'number' && !isExact(value)) {
    const message =
      'the number cannot be kept exactly: an integer beyond 2^53 - 1, beyond the range of a double, or -0';
    note(errors, path, 'unsafe_number', message);
  }
  if (typeof value !== 'object' || value === null) return 0;
  if (path.length >= MAX_DEPTH) {
    note(errors, path, 'too_deep', `a body may have at most ${MAX_DEPTH} levels`);
    return 0;
  }
  let members = 0;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      path.push(i);
      members += inspect(value[i], path, errors);
      path.pop();
    }
    return members;
  }
  for (const [name, member] of Object.entries(value)) {
    members++;
    path.push(name);
    if (name === '__proto__' || name === 'constructor' || name === 'prototype') {
      note(errors, path, 'unknown_field', `${JSON.stringify(name)} cannot be the name of a field`);
    } else if (!name.isWellFormed()) {
      note(errors, path, 'ill_formed_text', 'the name has a surrogate without its other half');
    }
    members += inspect(member, path, errors);
    path.pop();
  }
  return members;
}

function note(errors: FieldError[], path: readonly (string | number)[], code: string, message: string): void {
  if (errors.length >= MAX_ERRORS) {
    // Those beyond what a problem lists are only counted.
    errors.push({ pointer: '', code, message: '' });
    return;
  }
  // A very long name is shortened in the pointer.
  const names = path.map((name) => (typeof name === 'string' ? shorten(name).toWellFormed() : name));
  errors.push({ pointer: names.reduce(pointerTo, ''), code, message });
}

/**
 * Counts the members in a JSON text: the colons outside strings. More members than keys means a duplicate name.
 * @param text may be no JSON
 * @param budget the values of the text are subtracted; reading ends at the first that is too many
 * @throws Problem for an object with too many members
 */
function countMembers(text: string, budget: { values: number }): number {
  let count = 0;
  /** By level: the members so far of the object that is open there. */
  const members = [0];
  let level = 0;
  for (let i = 0; i < text.length && budget.values >= 0; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0x3a) {
      count++;
      if (++members[level]! > MAX_MEMBERS) {
        throw refusalOf('', 'too_many_values', `an object in a body may have at most ${MAX_MEMBERS} members`);
      }
    } else if (unit === 0x22) i = endOfString(text, i);
    else if (unit === 0x7d) level = Math.max(0, level - 1);
    // Each value comes after a comma, or is the first one in an array or an object.
    else if (unit === 0x2c || unit === 0x5b || unit === 0x7b) {
      budget.values--;
      if (unit === 0x7b) members[++level] = 0;
    }
  }
  return count;
}

/** Index of the quotation mark that ends the string begun at `start`; the length of a text without one. */
function endOfString(text: string, start: number): number {
  let end = start;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end < 0) return text.length;
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
