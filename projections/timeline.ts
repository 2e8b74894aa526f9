import { CRITICALITIES } from '../src/scoring/model.js';
import type { EventOf } from './events.js';
import { type ActionEvent, type IdentityEvent, isOfAction, subjectOf } from './identity-events.js';
import { type Projection, keysOf, rowAt } from './projection.js';

/**
 * Every event about an identity, in log order: what histories, explanations and any past state are folded from.
 *
 * Rows are kept in log order rather than by occurrence: a history is read in log order and paged by position, and a
 * state as of a past time needs a pass over all rows up to a position either way, since an action may be recorded long
 * after it occurred.
 */
export const timeline: Projection = {
  name: 'timeline',
  version: 7,
  views: ['timeline'],
  share: (event) => subjectOf(event)?.tris_id,
  reads: () => [],
  apply(event, rows) {
    const subject = subjectOf(event);
    if (subject) rows.insert(rowAt(timelineOf(subject.tris_id), event.position), pack(subject.event));
  },
};

export const timelineOf = keysOf('timeline');

/**
 * Actions are most of all rows, so they are stored most compactly. The identity and the position are in the row's
 * address.
 */
export type Packed =
  | [...Head, metric: string, criticality: number, platformId: string, said?: Said, change?: Change]
  | [...Head, type: string, data: unknown];

/** What the row of every event begins with. */
type Head = [id: string, occurredAt: number, recordedAt: number];

/** What an action has besides; only the fields that are set, and a source only if it is not `vouched`. */
type Said = Partial<Pick<EventOf<'ActionRelayed'>['data'], 'source' | 'counterparty'>>;

/** What a withdrawal or a reinstatement has besides. */
type Change = [
  type: Exclude<ActionEvent['type'], 'ActionRelayed'>,
  data: Omit<EventOf<'ActionWithdrawn'>['data'], keyof EventOf<'ActionRelayed'>['data']>,
];

export function pack(event: IdentityEvent): Packed {
  const { id, occurred_at, recorded_at } = event;
  if (!isOfAction(event)) return [id, occurred_at, recorded_at, event.type, event.data];
  const { metric, criticality, platform_id, source, counterparty } = event.data;
  const packed: Packed = [id, occurred_at, recorded_at, metric, CRITICALITIES.indexOf(criticality), platform_id];
  const said = { ...(source !== 'vouched' && { source }), ...(counterparty !== undefined && { counterparty }) };
  if (event.type !== 'ActionRelayed') {
    const { data } = event;
    const { tris_id: _1, metric: _2, criticality: _3, platform_id: _4, source: _5, counterparty: _6, ...more } = data;
    packed.push(said, [event.type, more]);
  } else if (source !== 'vouched' || counterparty !== undefined) packed.push(said);
  return packed;
}

/** The event of a timeline row. Its stream and an action's evidence hash are not stored. */
export function unpack(trisId: string, position: number, row: unknown): IdentityEvent {
  const packed = row as Packed;
  const [id, occurred_at, recorded_at] = packed;
  const eventOf = (type: string, data: unknown): IdentityEvent =>
    ({ id, stream: '', position, occurred_at, recorded_at, type, data }) as IdentityEvent;
  if (packed.length === 5) return eventOf(packed[3], packed[4]);
  const [, , , metric, criticality, platform_id, said, change] = packed;
  const data = { tris_id: trisId, metric, criticality: CRITICALITIES[criticality]!, platform_id, source: 'vouched' };
  // Not spread, for the reason at `rowIn`: some answers are of 100,000 rows.
  if (said) Object.assign(data, said);
  if (change) return eventOf(change[0], Object.assign(data, change[1]));
  return eventOf('ActionRelayed', Object.assign(data, { evidence_hash: null }));
}
