import { criticalityOf } from '../http/criticality.js';
import { parseTimestamp } from '../http/formats.js';
import { Problem } from '../problems.js';
import { categoryOf } from '../scoring/metrics.js';
import type { Action } from './relay.js';
import type { RelayActionDto } from './relay.dto.js';

/** How far ahead of ours a client's clock may be. */
const CLOCK_SKEW_MS = 60_000;

/** A validated submission in canonical terms. @throws Problem validation_failed for a time in the future */
export function toAction(body: RelayActionDto, now: number): Action {
  const occurred_at = body.occurred_at === undefined ? null : parseTimestamp(body.occurred_at)!;
  if (occurred_at !== null && occurred_at > now + CLOCK_SKEW_MS) {
    const message = `occurred_at must not be in the future; it is ${new Date(now).toISOString()} here`;
    throw new Problem('validation_failed', message, {
      errors: [{ pointer: '/occurred_at', code: 'in_the_future', message }],
    });
  }
  return {
    tris_id: body.tris_id,
    action_type: body.action_type,
    category: categoryOf(body.category)!,
    criticality: criticalityOf(body.criticality)!,
    platform_id: body.platform_id,
    occurred_at,
    external_id: body.external_id ?? null,
    evidence_uri: body.evidence_uri ?? null,
  };
}
