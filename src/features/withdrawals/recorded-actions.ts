import { Inject, Injectable } from '@nestjs/common';
import { type ActionRow, actionRow } from '../../../projections/actions.js';
import { type Actor, keyIdOf, refuseSelfStatement } from '../../commands/context.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { Platforms } from '../organizations/platforms.js';
import type { WithdrawnAction } from '../access/affected-decisions.js';
import { countedAction } from '../disc/evidence-reader.js';
import { type RecordedAction, actionIn, countedAt } from '../relay/domain/withdrawal.js';

export interface FoundAction {
  action: RecordedAction;
  /** The organization that owns the platform now, or null. */
  owner: string | null;
}

/** Finds actions by id, and says who may see and change them. */
@Injectable()
export class RecordedActions {
  constructor(
    private readonly views: Views,
    private readonly platforms: Platforms,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** As its stream is now. @throws Problem not_found, history_unreadable, projection_rebuilding */
  async find(actionId: string): Promise<FoundAction> {
    const row = await this.views.lookUp(
      async () => (await this.views.read([{ get: actionRow(actionId) }])).results[0] as ActionRow | undefined,
      (found) => found !== undefined,
    );
    const event = row && (await this.store.readAt(row[1]));
    const action = event && actionIn(await this.store.readStream(event.stream), actionId);
    if (!action) {
      const detail = `There is no action ${actionId}, or it is not applied yet; over HTTP, Credence-Min-Position waits for it.`;
      throw new Problem('not_found', detail);
    }
    return { action, owner: await this.platforms.ownerOf(action.relayed.data.platform_id) };
  }

  /** @throws Problem forbidden, self_statement */
  refuseChange({ action, owner }: FoundAction, actor: Actor): void {
    refuseUnlessMayChangeSome(actor);
    const { tris_id } = action.relayed.data;
    if (actor.scopes.has('ops') || mayChange({ tris_id, by: action.by, owner }, actor)) return;
    refuseSelfStatement(actor.organization, tris_id);
    const whose = owner === null ? 'the key that relayed it' : 'the organization that owns its platform';
    throw new Problem('forbidden', `Only ${whose} and operators may withdraw or reinstate the action.`);
  }

  /** @throws Problem forbidden */
  refuseRead({ action, owner }: FoundAction, { name, scopes, organization, session }: Actor): void {
    const isAuditor = scopes.has('audit:read') && organization === null;
    if (session && session.trisId === action.relayed.data.tris_id) return;
    if (scopes.has('ops') || isAuditor || name === action.by) return;
    if (organization !== null && organization === owner) return;
    throw new Problem('forbidden', 'Only who relayed the action, whom it is about, operators and auditors may see it.');
  }
}

/** An action as the review of decisions leaves it out. */
export function withdrawnAction(action: RecordedAction): WithdrawnAction {
  const { position } = action.relayed;
  return { ...countedAction(action.relayed), position, counted: (at) => countedAt(action, at) };
}

/** @throws Problem forbidden for a key that may change no action */
export function refuseUnlessMayChangeSome({ name, scopes }: Actor): void {
  if (scopes.has('ops') || scopes.has('relay:write')) return;
  throw new Problem('forbidden', `The key "${keyIdOf(name)}" lacks the scope "relay:write".`);
}

/**
 * Whether a key that may relay may change an action. Operators may change any.
 * @param action `by`: who relayed it; `owner`: the organization that owns the platform, or null
 */
export function mayChange(
  action: { tris_id: string; by: string; owner: string | null },
  { name, organization }: Pick<Actor, 'name' | 'organization'>,
): boolean {
  if (organization === action.tris_id) return false;
  return action.owner === null ? name === action.by : organization === action.owner;
}
