import { defineEvent, nullable, text } from '../../../kernel/event-definition.js';

/**
 * The name of policies, their id without the version, belongs to this owner from now on: because it created the first
 * version, or because an operator decided so. Stream `policy-name-<name>`.
 */
export const policyNameAssigned = defineEvent('PolicyNameAssigned', {
  /** `VP_<NAME>` or `AP_<NAME>`. */
  name: text,
  /** TRIS of an organization; null: the platform's operators. */
  owner: nullable(text),
});
