import { type Check, defineEvent, text } from '../../../kernel/event-definition.js';
import { GRANTABLE_STATUSES } from './identity.events.js';

type Statuses = (typeof GRANTABLE_STATUSES)[number][];
const statuses: Check<Statuses> = (value): value is Statuses =>
  Array.isArray(value) && value.every((status) => GRANTABLE_STATUSES.includes(status));

/**
 * Stream `accreditation-<hash of the issuer>`: from this event on, the issuer's grants of these statuses count in every
 * policy.
 */
export const issuerAccredited = defineEvent('IssuerAccredited', { issuer: text, statuses });
/** From this event on they no longer count, whenever they were granted. Same stream. */
export const accreditationWithdrawn = defineEvent('AccreditationWithdrawn', { issuer: text, statuses });
