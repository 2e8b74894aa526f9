import type { Position, RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact, streamDecoderFor } from '../../../kernel/event-definition.js';
import { Problem } from '../../../kernel/problems.js';
import { endorserOf } from './relay.js';
import { type Reason, actionReinstated, actionRelayed, actionWithdrawn, credonationRecorded } from './relay.events.js';

const EVENTS = [actionRelayed, credonationRecorded, actionWithdrawn, actionReinstated] as const;
type Event = Decoded<(typeof EVENTS)[number]>;
type Of<T extends Event['type']> = Extract<Event, { type: T }>;
const decode = streamDecoderFor(EVENTS);

export const ACTION_STATES = ['counted', 'withdrawn'] as const;
export type ActionState = (typeof ACTION_STATES)[number];

/** A recorded action, as its stream tells it. */
export interface RecordedAction {
  relayed: Of<'ActionRelayed'>;
  /** Who relayed it, as the log names actors. */
  by: string;
  credonation: Of<'CredonationRecorded'> | undefined;
  /** Its withdrawals and reinstatements, the oldest first. */
  changes: (Of<'ActionWithdrawn' | 'ActionReinstated'> & { by: string })[];
  /** Whether it was the approval of a record, which was revoked. */
  revoked: boolean;
}

/**
 * The action with an id, if the stream has it. A stream `trove-<record id>` has an action for each approval.
 * @throws NewerSchema, Problem history_unreadable
 */
export function actionIn(history: readonly RecordedEvent[], actionId: string): RecordedAction | undefined {
  // Nothing else that becomes of a record says anything about its actions.
  const ofActions = history.filter(({ type }) => !type.startsWith('Trove'));
  const revoked = history.some(({ type, data }) => type === 'TroveRecordRevoked' && data['action_id'] === actionId);
  let action: RecordedAction | undefined;
  let previous: Event | undefined;
  for (const [i, event] of decode(ofActions).entries()) {
    const by = ofActions[i]!.metadata.actor;
    if (event.type === 'ActionRelayed') {
      if (event.id === actionId) action = { relayed: event, by, credonation: undefined, changes: [], revoked };
    } else if (event.type === 'CredonationRecorded') {
      // It follows its action.
      if (action && previous === action.relayed) action.credonation = event;
    } else if (event.data.action_id === actionId) action?.changes.push({ ...event, by });
    previous = event;
  }
  return action;
}

export function stateOf({ changes }: Pick<RecordedAction, 'changes'>): ActionState {
  return changes.at(-1)?.type === 'ActionWithdrawn' ? 'withdrawn' : 'counted';
}

/** Whether it counts in what is derived at a position after its own. */
export function countedAt({ changes }: Pick<RecordedAction, 'changes'>, position: Position): boolean {
  return stateOf({ changes: changes.filter((change) => change.position <= position) }) === 'counted';
}

/**
 * Withdraws an action, or reinstates it. Nothing changes if it is in that state already.
 * @param owner the organization that owned the platform when the credonation was recorded, or null
 * @throws Problem action_not_withdrawn for the reinstatement of an action that never was withdrawn; record_decided for one
 * whose record was revoked
 */
export function decideChange(action: RecordedAction, to: ActionState, reason: Reason, owner: string | null): Fact[] {
  const { relayed, credonation, changes } = action;
  if (to === 'counted' && changes.length === 0) {
    throw new Problem('action_not_withdrawn', `The action ${relayed.id} was never withdrawn.`);
  }
  if (to === 'counted' && action.revoked) {
    throw new Problem('record_decided', 'The approval of the record that became this action was revoked.');
  }
  if (stateOf(action) === to) return [];
  const { tris_id, metric, criticality, platform_id, source, counterparty } = relayed.data;
  const data = {
    tris_id,
    action_id: relayed.id,
    metric,
    criticality,
    platform_id,
    source,
    ...(counterparty !== undefined && { counterparty }),
    ...(credonation && {
      endorser: endorserOf(credonation.data, owner),
      amount: credonation.data.amount,
      credonation_id: credonation.id,
    }),
    reason,
  };
  return [fact(to === 'withdrawn' ? actionWithdrawn : actionReinstated, data, relayed.occurred_at)];
}
