import { type EventOf, decodeEvent } from '../../../projections/events.js';
import type { Actor } from '../../commands/context.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import type { JsonObject } from '../../kernel/json.js';
import { yieldIfDue } from '../../kernel/turn.js';
import type { EventStore } from '../../stores/ports/event-store.js';
import { JobGivenUp, type RunningJob } from '../../stores/ports/jobs.js';
import type { WithdrawnAction } from '../access/affected-decisions.js';
import { countedAction } from '../disc/evidence-reader.js';
import type { Platforms } from '../organizations/platforms.js';
import { mayChange } from '../relay/recorded-actions.js';

/** Actions of one set. They are in memory while the set is made. */
const MAX_SET = 1_000_000;
const TOO_MANY = `More than ${MAX_SET.toLocaleString('en-US')} actions are meant: choose a shorter time, or one platform.`;

/** Which actions; all that is not null must hold. A type, not an interface: it is stored as JSON. */
export type SetFilter = {
  action_id: string | null;
  key_id: string | null;
  platform_id: string | null;
  /** ms, inclusive, as the next. */
  recorded_from: number | null;
  recorded_to: number;
};

/** Who asks for a set. */
type Asker = Pick<Actor, 'name' | 'scopes' | 'organization'>;

/** An action of a set. */
export interface SetAction extends WithdrawnAction {
  action_id: string;
  tris_id: string;
  stream: string;
  platform_id: string;
  /** Its withdrawals and reinstatements: where they are, and whether it counts from there on. */
  states: [Position, boolean][];
}

/**
 * Finds the actions of a set, none of which is withdrawn, in the log.
 * @returns `sets`: by identity, those up to the end of the log; actions that the actor may not withdraw are left out.
 * `key_digest`: as `KeySeen` has it, of the key that is meant; null: unknown to the actor, or none is
 * @throws JobGivenUp for more than `MAX_SET`
 */
export async function findSets(
  filter: SetFilter,
  actor: Asker,
  platforms: Platforms,
  store: EventStore,
  { signal, progress }: Pick<RunningJob, 'signal' | 'progress'>,
): Promise<{ sets: Map<string, SetAction[]>; key_digest: string | null }> {
  let key_digest: string | null = null;
  const found = new Map<string, SetAction>();
  const total = await store.countAfter(0);
  let done = 0;
  for await (const slice of store.readAll(0)) {
    signal.throwIfAborted();
    for (const recorded of slice) {
      if (recorded.type === 'KeySeen') {
        if (recorded.data['key_id'] === filter.key_id && mayKnow(recorded.data, actor))
          key_digest = recorded.data['digest_prefix'] as string;
      } else if (recorded.type === 'ActionWithdrawn' || recorded.type === 'ActionReinstated') {
        const action = found.get(recorded.data['action_id'] as string);
        action?.states.push([recorded.position, recorded.type === 'ActionReinstated']);
      } else if (recorded.type === 'ActionRelayed' && isMeant(recorded, filter)) {
        const event = decodeEvent(recorded);
        // One that cannot be decoded counts nowhere.
        if (event.type !== 'ActionRelayed') continue;
        const { tris_id, platform_id } = event.data;
        const by = recorded.metadata.actor;
        const mayWithdraw =
          actor.scopes.has('ops') || mayChange({ tris_id, by, owner: await platforms.ownerOf(platform_id) }, actor);
        if (!mayWithdraw) continue;
        if (found.size === MAX_SET) throw new JobGivenUp(TOO_MANY);
        found.set(event.id, setAction(event));
      }
    }
    done += slice.length;
    progress(done, Math.max(done, total));
    await yieldIfDue();
  }
  progress(done, done);
  const sets = new Map<string, SetAction[]>();
  for (const action of found.values()) {
    if (action.states.at(-1)?.[1] === false) continue;
    const set = sets.get(action.tris_id);
    if (set) set.push(action);
    else sets.set(action.tris_id, [action]);
  }
  return { sets, key_digest };
}

/** Whether an actor may know of a key: an operator of any, others of those of their organization, or of their own. */
function mayKnow({ key_id, organization }: JsonObject, actor: Asker): boolean {
  if (actor.scopes.has('ops')) return true;
  return actor.organization === null ? actor.name === `key:${String(key_id)}` : actor.organization === organization;
}

function isMeant({ id, data, metadata }: RecordedEvent, filter: SetFilter): boolean {
  const { action_id, key_id, platform_id, recorded_from, recorded_to } = filter;
  if (action_id !== null && id !== action_id) return false;
  if (key_id !== null && metadata.actor !== `key:${key_id}`) return false;
  if (platform_id !== null && data['platform_id'] !== platform_id) return false;
  const recorded = Date.parse(metadata.recorded_at);
  return recorded >= (recorded_from ?? -Infinity) && recorded <= recorded_to;
}

function setAction(event: EventOf<'ActionRelayed'>): SetAction {
  const { id, stream, data, position } = event;
  const { tris_id, platform_id } = data;
  const states: SetAction['states'] = [];
  const counted = (at: Position) => states.findLast(([changed]) => changed <= at)?.[1] ?? true;
  return { action_id: id, tris_id, stream, platform_id, ...countedAction(event), position, states, counted };
}
