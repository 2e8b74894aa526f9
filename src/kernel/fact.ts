import type { EventDefinition } from './event-definition.js';
import { hashOf } from './hash.js';
import type { JsonObject } from './json.js';

/** An event as a decider returns it, without ids and metadata. `fact` makes one; the compiler checks its data. */
export interface Fact {
  type: string;
  schema: number;
  data: JsonObject;
  /** ms since the epoch; default: when it is recorded. */
  occurredAt?: number;
}

export function fact<D>(definition: EventDefinition<string, D>, data: D & JsonObject, occurredAt?: number): Fact {
  return { type: definition.type, schema: definition.schema, data, occurredAt };
}

/** Name of a stream that is identified by client strings. They are hashed, so that they never appear in a name. */
export function hashedStream(category: string, ...parts: string[]): string {
  return `${category}-${hashOf(...parts)}`;
}
