import { Problem } from '../kernel/problems.js';

/**
 * An organization's key says nothing about the organization itself: what it gains by a statement cannot rest on its word.
 * @param organization the key is bound to; null: an operator's key, which speaks for nobody
 * @param about TRIS ids that the statement is about; null: nobody
 * @throws Problem self_statement
 */
export function refuseSelfStatement(organization: string | null, ...about: (string | null)[]): void {
  if (organization === null || !about.includes(organization)) return;
  throw new Problem('self_statement', `A key of ${organization} cannot state anything about ${organization} itself.`);
}
