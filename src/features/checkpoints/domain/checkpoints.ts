import { randomBytes } from 'node:crypto';
import { type Fact, fact } from '../../../kernel/event-definition.js';
import { logOriginBegun } from './checkpoints.events.js';

/** The one stream of checkpoints: of two workers that append at the same revision, one succeeds. */
export const CHECKPOINTS_STREAM = 'checkpoints';

/** @param replaces the origin of the last checkpoint that was signed; null: of none */
export function decideBeginOrigin(replaces: string | null, reason_code: string, begun_by: string): Fact {
  const origin = `credence.log/${randomBytes(16).toString('hex')}`;
  return fact(logOriginBegun, { origin, replaces, reason_code, begun_by });
}
