import { Inject, Injectable } from '@nestjs/common';
import { actionRow } from '../../../projections/actions.js';
import { type Actor, type CommandContext, keyIdOf, refuseSelfStatement } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { Platforms } from '../organizations/platforms.js';
import type { Reason } from './domain/relay.events.js';
import { type ActionState, type RecordedAction, actionIn, decideChange } from './domain/withdrawal.js';
import { RelayMetrics } from './relay-metrics.js';

interface FoundAction {
  action: RecordedAction;
  /** The organization that owns the platform now, or null. */
  owner: string | null;
}

interface Change {
  /** As it was read from its stream. */
  action: RecordedAction;
  to: ActionState;
  reason: Reason;
  context: CommandContext;
}

/** Finds actions by id, says who may see and change them, and withdraws and reinstates them in their own streams. */
@Injectable()
export class RecordedActions {
  constructor(
    private readonly writer: Writer,
    private readonly platforms: Platforms,
    private readonly metrics: RelayMetrics,
    private readonly views: Views,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** As its stream is now. @throws Problem not_found, history_unreadable, projection_rebuilding */
  async find(actionId: string): Promise<FoundAction> {
    const position = await this.views.lookUp(
      async () => (await this.views.read([{ get: actionRow(actionId) }])).results[0] as Position | undefined,
      (found) => found !== undefined,
    );
    const event = position === undefined ? undefined : await this.store.readAt(position);
    const action = event && actionIn(await this.store.readStream(event.stream), actionId);
    if (!action) {
      const detail = `There is no action ${actionId}, or it is not applied yet; over HTTP, Credence-Min-Position waits for it.`;
      throw new Problem('not_found', detail);
    }
    return { action, owner: await this.platforms.ownerOf(action.relayed.data.platform_id) };
  }

  /** One that an actor may change. @throws Problem as `find`; forbidden, self_statement */
  async findToChange(actionId: string, actor: Actor): Promise<RecordedAction> {
    const { action, owner } = await this.find(actionId);
    refuseUnlessMayChangeSome(actor);
    const { tris_id } = action.relayed.data;
    if (actor.scopes.has('ops') || mayChange({ tris_id, by: action.by, owner }, actor)) return action;
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

  /**
   * Withdraws an action or reinstates it, whoever asks.
   * @returns the position of the event that brought it into this state; asked again, the first answer
   * @throws Problem action_not_withdrawn, write_conflict, idempotency_key_reused
   */
  async change({ action, to, reason, context }: Change): Promise<Position> {
    const { id: action_id, stream } = action.relayed;
    const owner = await this.ownerThen(action);
    const decide = (history: readonly RecordedEvent[]) =>
      decideChange(actionIn(history, action_id)!, to, reason, owner);
    const { own, position, history, isNew } = await this.writer.execute(stream, context, decide);
    if (isNew) this.metrics.changes.inc(action.relayed.data.platform_id, to);
    return own ? position : actionIn(history, action_id)!.changes.at(-1)!.position;
  }

  /** The organization that owned the platform when the action's credonation was recorded, or null. */
  async ownerThen({ credonation }: RecordedAction): Promise<string | null> {
    return credonation ? this.platforms.ownerAt(credonation.data.platform_id, credonation.position) : null;
  }
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
