import * as access from '../src/features/access/domain/ap.events.js';
import * as accreditation from '../src/features/identity/domain/accreditation.events.js';
import * as checkpoints from '../src/features/checkpoints/domain/checkpoints.events.js';
import * as deadLetters from '../src/features/dead-letters/domain/dead-letters.events.js';
import * as disputes from '../src/features/disputes/domain/disputes.events.js';
import * as idempotency from '../src/commands/idempotency.events.js';
import * as identity from '../src/features/identity/domain/identity.events.js';
import * as keys from '../src/features/keys/domain/keys.events.js';
import * as lenses from '../src/features/lenses/domain/lenses.events.js';
import * as organizations from '../src/features/organizations/domain/organizations.events.js';
import * as policyNames from '../src/features/policy-names/domain/policy-names.events.js';
import * as relay from '../src/features/relay/domain/relay.events.js';
import * as sessions from '../src/features/accounts/domain/sessions.events.js';
import * as trove from '../src/features/trove/domain/trove.events.js';
import * as verifications from '../src/features/verifications/domain/verifications.events.js';
import * as wallets from '../src/features/accounts/domain/wallets.events.js';
import * as webhooks from '../src/features/webhooks/domain/webhooks.events.js';
import { type Decoded, type Undecodable, decoderFor, definitionsIn } from '../src/kernel/event-definition.js';
import type { RecordedEvent } from '../src/kernel/event.js';
import { leafOf } from '../src/kernel/merkle.js';

/** The files that define event types: every event type of the log is in one of them. */
const FILES = [
  access,
  accreditation,
  checkpoints,
  deadLetters,
  disputes,
  idempotency,
  identity,
  keys,
  lenses,
  organizations,
  policyNames,
  relay,
  sessions,
  trove,
  verifications,
  wallets,
  webhooks,
];
const DEFINITIONS = FILES.flatMap((file) => definitionsIn(file));

export type DomainEvent = Decoded<(typeof DEFINITIONS)[number]> | Undecodable;
export type EventOf<T extends DomainEvent['type']> = Extract<DomainEvent, { type: T }>;

type EventTest<E extends DomainEvent> = (event: DomainEvent) => event is E;
/** The events that pass a test. */
export type Passing<Test> = Test extends EventTest<infer E> ? E : never;

/** Returns a test whether an event is of one of these types. */
export function isAnyOf<T extends DomainEvent['type']>(...types: T[]): EventTest<EventOf<T>> {
  return (event): event is EventOf<T> => (types as string[]).includes(event.type);
}

/** Decodes a stored event and upcasts it to the current schema. @throws NewerSchema */
export const decodeEvent = decoderFor(DEFINITIONS) as (event: RecordedEvent) => DomainEvent;

/** Decodes an event that is folded. @throws NewerSchema */
export function decodeFolded(event: RecordedEvent): DomainEvent {
  const decoded = decodeEvent(event);
  if (!event.damage) decoded.leaf = () => leafOf(event);
  return decoded;
}
