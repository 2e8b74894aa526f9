import { criticalityOf } from '../../http/criticality.js';
import { notInTheFuture } from '../../http/times.js';
import { categoryOf } from '../../scoring/metrics.js';
import type { Action } from './domain/relay.js';
import type { RelayActionDto } from './relay.dto.js';

/** Converts a request body to canonical terms. @throws Problem validation_failed for a time in the future */
export function toAction(body: RelayActionDto, now: number): Action {
  return {
    tris_id: body.tris_id,
    action_type: body.action_type,
    category: categoryOf(body.category)!,
    criticality: criticalityOf(body.criticality)!,
    platform_id: body.platform_id,
    occurred_at: body.occurred_at === undefined ? null : notInTheFuture('occurred_at', body.occurred_at, now),
    external_id: body.external_id ?? null,
    evidence_uri: body.evidence_uri ?? null,
  };
}
