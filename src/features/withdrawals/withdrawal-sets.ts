import { Inject, Injectable } from '@nestjs/common';
import { type EventOf, decodeEvent } from '../../../projections/events.js';
import type { Actor } from '../../commands/context.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import type { JsonObject } from '../../kernel/json.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { JobGivenUp } from '../../stores/ports/jobs.js';
import type { WithdrawnAction } from '../access/affected-decisions.js';
import { countedAction } from '../disc/evidence-reader.js';
import { Platforms } from '../organizations/platforms.js';
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
  /** Number of its withdrawals and reinstatements. */
  changes: number;
}

/** Finds the actions of a set, none of which is withdrawn, in the log. */
@Injectable()
export class WithdrawalSets {
  constructor(
    private readonly platforms: Platforms,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /**
   * @returns `sets`: by identity, those up to the end of the log; actions that the actor may not withdraw are left out.
   * `key_digest`: as `KeySeen` has it, of the key that is meant; null: unknown to the actor, or none is
   * @throws JobGivenUp for more than `MAX_SET`
   */
  async find(
    filter: SetFilter,
    actor: Asker,
    signal: AbortSignal,
    onProgress: (done: number, total: number) => void,
  ): Promise<{ sets: Map<string, SetAction[]>; key_digest: string | null }> {
    let key_digest: string | null = null;
    const found = new Map<string, ReturnType<typeof actionOf> & { states: [Position, boolean][] }>();
    const total = await this.store.countAfter(0);
    let done = 0;
    for await (const slice of this.store.readAll(0)) {
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
          if (event.type !== 'ActionRelayed' || !(await this.isAllowed(event, recorded.metadata.actor, actor)))
            continue;
          if (found.size === MAX_SET) throw new JobGivenUp(TOO_MANY);
          found.set(event.id, { ...actionOf(event), states: [] });
        }
      }
      done += slice.length;
      onProgress(done, Math.max(done, total));
      await yieldIfDue();
    }
    onProgress(done, done);
    const sets = new Map<string, SetAction[]>();
    for (const { states, ...action } of found.values()) {
      if (states.at(-1)?.[1] === false) continue;
      const counted = (position: Position) => states.findLast(([at]) => at <= position)?.[1] ?? true;
      const counting = { ...action, changes: states.length, counted };
      const set = sets.get(action.tris_id);
      if (set) set.push(counting);
      else sets.set(action.tris_id, [counting]);
    }
    return { sets, key_digest };
  }

  private async isAllowed({ data }: EventOf<'ActionRelayed'>, by: string, actor: Asker): Promise<boolean> {
    if (actor.scopes.has('ops')) return true;
    const { tris_id, platform_id } = data;
    return mayChange({ tris_id, by, owner: await this.platforms.ownerOf(platform_id) }, actor);
  }
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

function actionOf(event: EventOf<'ActionRelayed'>) {
  const { id, stream, data, position } = event;
  const { tris_id, platform_id } = data;
  return { action_id: id, tris_id, stream, platform_id, ...countedAction(event), position };
}
