import { type Fact, fact, hashedStream } from '../../../kernel/event-definition.js';
import { sha256Hex } from '../../../kernel/hash.js';
import { isFlags, metricCategory } from '../../../scoring/names.js';
import { CRITICALITIES, type Category, type Criticality, TCT_BY_CRITICALITY } from '../../../scoring/model.js';
import { type Source, actionRelayed, credonationRecorded } from './relay.events.js';

/** A validated action: canonical names, times in ms. */
export interface Action {
  tris_id: string;
  action_type: string;
  category: Category;
  criticality: Criticality;
  platform_id: string;
  occurred_at: number | null;
  external_id: string | null;
  evidence_uri: string | null;
  /** Absent if there is none, and so from the hash of the command: earlier builds did not know it. */
  counterparty?: string;
}

/**
 * The stream of this action alone. A retry finds it by the platform's own id of the action, or by the Idempotency-Key.
 * Without either, every request is a new action.
 */
export function actionStream(action: Action, idempotency: string | null, newId: () => string): string {
  if (action.external_id !== null) return externalStream(action.platform_id, action.external_id);
  if (idempotency !== null) return hashedStream('action', idempotency);
  return `action-${newId()}`;
}

/** The stream of an action that the platform named. */
export function externalStream(platformId: string, externalId: string): string {
  return hashedStream('action', platformId, externalId);
}

export function metricOf({ category, action_type }: Pick<Action, 'category' | 'action_type'>): string {
  return `${category}_${action_type}`;
}

/** The inverse of `metricOf`. */
export function splitMetric(metric: string): Pick<Action, 'category' | 'action_type'> {
  const category = metricCategory(metric);
  return { category, action_type: metric.slice(category.length + 1) };
}

/** The number of metrics of one identity that one organization can be the first to relay. */
export const METRICS_PER_ORGANIZATION = 20_000;

/**
 * The TRIS that an action on this platform is counted for.
 * @param owner TRIS of the organization that owns the platform; without one the platform counts for itself
 */
export function relayerOf(platformId: string, owner: string | null | undefined): string {
  return owner ?? `tris:platform:${platformId}`;
}

/** The TRIS that endorses an identity for an action: the other side, or else whom the action is counted for. */
export function endorserOf(
  { platform_id, counterparty }: { platform_id: string; counterparty?: string | undefined },
  owner: string | null | undefined,
): string {
  return counterparty ?? relayerOf(platform_id, owner);
}

/**
 * The events of an action: the relayed action and its credonation. There is no credonation for a flag, nor if the
 * identity is its own endorser.
 * @param owner TRIS of the organization that owns the platform, or null
 */
export function decide(action: Action, owner: string | null, source: Source): Fact[] {
  const { tris_id, category, criticality, platform_id, counterparty } = action;
  const metric = metricOf(action);
  const occurredAt = action.occurred_at ?? undefined;
  const evidence_hash = action.evidence_uri === null ? null : sha256Hex(action.evidence_uri);
  const decided = source === 'vouched' ? undefined : source;
  // An absent field stays absent.
  const said = { source, ...(counterparty !== undefined && { counterparty }) };
  const recorded = { tris_id, metric, criticality, platform_id, evidence_hash, ...said };
  const relayed = fact(actionRelayed, recorded, occurredAt, decided);
  if (isFlags(metric) || endorserOf({ platform_id, counterparty }, owner) === tris_id) return [relayed];
  const amount = TCT_BY_CRITICALITY[CRITICALITIES.indexOf(criticality)]!;
  const credonation = { tris_id, platform_id, amount, category, ...said };
  return [relayed, fact(credonationRecorded, credonation, occurredAt, decided)];
}
