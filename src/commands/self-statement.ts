import { Problem } from '../kernel/problems.js';

/**
 * Refuses statements of an organization about itself: an organization must not gain from its own statements.
 * @param organization the one that the key is bound to; null for an operator's key
 * @param about TRIS ids that the statement is about; null: no identity
 * @throws Problem self_statement
 */
export function refuseSelfStatement(organization: string | null, ...about: (string | null)[]): void {
  if (organization === null || !about.includes(organization)) return;
  throw new Problem('self_statement', `A key of ${organization} cannot state anything about ${organization} itself.`);
}
