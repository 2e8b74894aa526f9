import type { RecordedEvent } from './event.js';
import { hashOf } from './hash.js';
import { type JsonObject, isObject } from './json.js';
import { Problem } from './problems.js';

/**
 * Event types as values: a name, a schema version, a check of the data, and upcasters for older versions. `fact` makes an
 * event of a type, a decoder reads it.
 */

export type Check<T> = (value: unknown) => value is T;
type Shape = Record<string, Check<unknown>>;
type Value<C> = C extends Check<infer T> ? T : never;
type Absent<S extends Shape> = { [K in keyof S]: undefined extends Value<S[K]> ? K : never }[keyof S];
type DataOf<S extends Shape> = { [K in Exclude<keyof S, Absent<S>>]: Value<S[K]> } & {
  [K in Absent<S>]?: Exclude<Value<S[K]>, undefined>;
};

export interface EventDefinition<T extends string = string, D = unknown> {
  type: T;
  /** Current schema version; the one written. */
  schema: number;
  /** Each upcaster takes data of the version it is keyed by and returns data of the next version. */
  upcasters: Record<number, (data: JsonObject) => JsonObject>;
  /** Names of the fields of its data. */
  fields: readonly string[];
  check(data: unknown): data is D;
}

export const text: Check<string> = (value): value is string => typeof value === 'string';
export const number: Check<number> = (value): value is number => typeof value === 'number';
export const flag: Check<boolean> = (value): value is boolean => typeof value === 'boolean';
export const object: Check<JsonObject> = (value): value is JsonObject => isObject(value);
export const time: Check<string> = (value): value is string => typeof value === 'string' && !isNaN(Date.parse(value));
export function oneOf<const T extends string | number>(values: readonly T[]): Check<T> {
  return (value): value is T => values.includes(value as T);
}
export function wholeNumber(min: number, max: number): Check<number> {
  return (value): value is number => Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
}
export function nullable<T>(check: Check<T>): Check<T | null> {
  return (value): value is T | null => value === null || check(value);
}

/** A field that may be absent. */
export function optional<T>(check: Check<T>): Check<T | undefined> {
  return (value): value is T | undefined => value === undefined || check(value);
}

export function listOf<T>(check: Check<T>): Check<T[]> {
  return (value): value is T[] => Array.isArray(value) && value.every(check);
}

/** An object with these fields. Other fields are ignored. */
export function shaped<S extends Shape>(shape: S): Check<DataOf<S>> {
  const checks = Object.entries(shape);
  return (value): value is DataOf<S> => {
    if (typeof value !== 'object' || value === null) return false;
    for (const [field, check] of checks) if (!check((value as JsonObject)[field])) return false;
    return true;
  };
}

/** Defines an event type. Unknown fields are ignored; a missing or wrong field makes the event undecodable. */
export function defineEvent<T extends string, S extends Shape>(
  type: T,
  shape: S,
  { schema = 1, upcasters = {} }: { schema?: number; upcasters?: EventDefinition['upcasters'] } = {},
): EventDefinition<T, DataOf<S>> {
  return { type, schema, upcasters, fields: Object.keys(shape), check: shaped(shape) };
}

type ExportOf<File> = File extends unknown ? File[keyof File] : never;

/** The event types that a module exports. */
export function definitionsIn<File extends object>(file: File): Extract<ExportOf<File>, EventDefinition>[] {
  return Object.values(file).filter((exported) => typeof exported === 'object' && 'upcasters' in exported);
}

/** An event as a decider returns it, without ids and metadata. `fact` makes one; the compiler checks its data. */
export interface Fact {
  type: string;
  schema: number;
  data: JsonObject;
  /** ms since the epoch; default: when it is recorded. */
  occurredAt: number | undefined;
  /**
   * What was decided, if a retry may be decided otherwise: a part of the event's id, so that the retry finds the
   * recorded event instead of taking its own for it.
   */
  decided: string | undefined;
}

export function fact<D>(
  definition: EventDefinition<string, D>,
  data: D & JsonObject,
  occurredAt?: number,
  decided?: string,
): Fact {
  return { type: definition.type, schema: definition.schema, data, occurredAt, decided };
}

/** Name of a stream that is identified by client strings. They are hashed, so that they never appear in a name. */
export function hashedStream(category: string, ...parts: string[]): string {
  return `${category}-${hashOf(...parts)}`;
}

/** The parts of an event other than its data. Times in ms since the epoch. */
export interface EventHeader {
  id: string;
  stream: string;
  position: number;
  occurred_at: number;
  recorded_at: number;
  /**
   * Computes the leaf of the recorded event (docs/decisions/0034). Only of an event that is folded; absent if it is damaged.
   */
  leaf?: () => string;
}

export type Decoded<D extends EventDefinition> =
  D extends EventDefinition<infer T, infer Data> ? EventHeader & { type: T; data: Data } : never;

/** An event of a known version that does not decode. It quarantines its identity. */
export interface Undecodable extends EventHeader {
  type: 'Undecodable';
  data: { tris_id: string | null; event_type: string; reason: string };
}

/**
 * Returns a decoded event. Deciders use it: they must not ignore an event they cannot read, since it may end a grant.
 * @throws Problem history_unreadable
 */
export function readable<E extends EventHeader & { type: string }>(event: E | Undecodable): E {
  if (event.type !== 'Undecodable') return event as E;
  const detail = `${event.stream} cannot be read: its event ${event.id} is a dead letter; an operator must check it.`;
  throw new Problem('history_unreadable', detail);
}

/** An event written by a newer build. The reader must stop at it, not skip it. */
export class NewerSchema extends Error {
  constructor(event: RecordedEvent, known: number | undefined) {
    super(
      `event ${event.id} at position ${event.position} is ${event.type} schema ${event.metadata.schema}; this build ` +
        (known === undefined ? 'does not know the type' : `knows up to ${known}`) +
        ': run a build that is at least as new as the one that wrote it',
    );
    this.name = 'NewerSchema';
  }
}

/** The type of an event whose stored text is damaged: its original type is unknown. */
export const UNREADABLE = 'unreadable';

/** Makes a decoder for a closed set of event types. */
export function decoderFor<D extends EventDefinition>(definitions: readonly D[]) {
  const byType = new Map(definitions.map((definition) => [definition.type, definition]));
  const [occurredAt, recordedAt] = [timeReader(), timeReader()];

  /** @throws NewerSchema */
  return (event: RecordedEvent): Decoded<D> | Undecodable => {
    const { id, type, stream, position, metadata } = event;
    if (event.damage) {
      const { reason, tris_id } = event.damage;
      const data = { tris_id, event_type: type, reason: `its stored text is damaged: ${reason}` };
      return { id, stream, position, occurred_at: 0, recorded_at: 0, type: 'Undecodable', data };
    }
    const definition = byType.get(type);
    const version = metadata.schema;
    if (!definition || version > definition.schema) throw new NewerSchema(event, definition?.schema);
    const occurred_at = occurredAt(metadata.occurred_at);
    const recorded_at = recordedAt(metadata.recorded_at);
    let data = event.data;
    let reason: string;
    try {
      for (let from = version; from < definition.schema; from++) data = definition.upcasters[from]!(data);
      if (isNaN(occurred_at) || isNaN(recorded_at)) reason = 'its metadata holds no valid times';
      else if (definition.check(data)) {
        return { id, stream, position, occurred_at, recorded_at, type, data } as Decoded<D>;
      } else reason = `its data is not that of ${type} schema ${version}`;
    } catch (error) {
      reason = `upcasting from schema ${version} failed: ${(error as Error).message}`;
    }
    // Rows hold numbers only, so an unreadable time is replaced by the other one.
    return {
      id,
      stream,
      position,
      occurred_at: occurred_at || recorded_at || 0,
      recorded_at: recorded_at || 0,
      type: 'Undecodable',
      data: { tris_id: subjectGuess(event), event_type: type, reason },
    };
  };
}

/** Makes the decoder of an aggregate's streams, which decodes every event of a stream, or throws. */
export function streamDecoderFor<D extends EventDefinition>(definitions: readonly D[]) {
  const decode = decoderFor(definitions);
  /** @throws NewerSchema, Problem history_unreadable */
  return (history: readonly RecordedEvent[]): Decoded<D>[] =>
    history.map((event) => readable(decode(event) as (EventHeader & { type: string }) | Undecodable) as Decoded<D>);
}

/** Makes the fold of an aggregate's streams: undefined for an empty one. It throws what the decoder throws. */
export function streamFold<D extends EventDefinition, S>(
  definitions: readonly D[],
  evolve: (state: S | undefined, event: Decoded<D>) => S | undefined,
) {
  const decode = streamDecoderFor(definitions);
  return (history: readonly RecordedEvent[]): S | undefined => decode(history).reduce<S | undefined>(evolve, undefined);
}

/** Date.parse with a cache of one: neighbouring events often have the same time. */
function timeReader(): (text: string) => number {
  let [last, time] = ['', NaN];
  return (text) => {
    if (text !== last) [last, time] = [text, Date.parse(text)];
    return time;
  };
}

/** The identity an undecodable event is about, as far as its raw data shows. */
export function subjectGuess({ data, stream }: Pick<RecordedEvent, 'data' | 'stream'>): string | null {
  for (const field of ['tris_id', 'tris_org']) {
    const value = (data as JsonObject | null)?.[field];
    // It can be an identity, and so the key of a row.
    if (typeof value === 'string' && /^[ -~]{1,128}$/.test(value)) return value;
  }
  return /^(?:identity|organization)-(.+)$/.exec(stream)?.[1] ?? null;
}
