import { defineEvent, listOf, oneOf, text } from '../../../kernel/event-definition.js';
import { GRANTABLE_STATUSES } from './identity.events.js';

const statuses = listOf(oneOf(GRANTABLE_STATUSES));

/**
 * Stream `accreditation-<hash of the issuer>`: from this event on, the issuer's grants of these statuses count in every
 * policy.
 */
export const issuerAccredited = defineEvent('IssuerAccredited', { issuer: text, statuses });
/** From this event on they no longer count, whenever they were granted. Same stream. */
export const accreditationWithdrawn = defineEvent('AccreditationWithdrawn', { issuer: text, statuses });
