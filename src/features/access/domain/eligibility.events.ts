import { defineEvent, text } from '../../../kernel/event-definition.js';

/** A token was revoked. Stream `access-<jti>`, after the AccessChecked that issued it. */
export const eligibilityRevoked = defineEvent('EligibilityRevoked', { jti: text });
