import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { NewEvent, Position } from '../../kernel/event.js';
import type { CommandContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { keepText } from '../../commands/kept-texts.js';
import { Platforms, refuseUnlessOwned } from '../organizations/platforms.js';
import { refuseSelfStatement } from '../../commands/self-statement.js';
import { Problem } from '../../kernel/problems.js';
import { type Action, actionStream, decide } from './domain/relay.js';
import { MetricLimit } from './metric-limit.js';

export interface Relayed {
  action_id: string;
  position: Position;
}

/** Records one verified action. */
export class RelayAction extends Command<Relayed> {
  constructor(
    readonly action: Action,
    readonly context: CommandContext,
    /** The organization the caller's key is bound to; null for an operator's key. */
    readonly organization: string | null,
  ) {
    super();
  }
}

/** Writes actions to their streams. Also used by imports and by the ingestion of chains. */
@Injectable()
export class ActionRecorder {
  constructor(
    private readonly writer: Writer,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /**
   * Writes an action to its stream, or returns the one already written.
   * @param owner TRIS of the organization that owns the platform, or null
   * @throws Problem external_id_conflict
   */
  async record(action: Action, stream: string, owner: string | null, context: CommandContext): Promise<Relayed> {
    if (action.evidence_uri !== null) await keepText(this.keyValue, action.evidence_uri);
    const { position, events } = await this.writer.create(stream, decide(action, owner), context);
    refuseIfOther(events, action, context);
    return { action_id: events[0]!.id, position };
  }

  /**
   * As `record` of each, at the same time.
   * @param actions of different streams
   * @returns in their order; what was refused or failed has its error as the outcome
   */
  async recordEach(
    actions: readonly { action: Action; stream: string; owner: string | null; body_hash: string }[],
    context: Omit<CommandContext, 'body_hash' | 'idempotency'>,
  ): Promise<(Relayed | Error)[]> {
    const contexts = actions.map(({ body_hash }) => ({ ...context, idempotency: null, body_hash }));
    for (const [n, { action, stream }] of actions.entries()) {
      if (action.evidence_uri === null) continue;
      // Not again for an action that is there: its text may have been deleted.
      if (!(await this.writer.isRecorded(stream, contexts[n]!))) await keepText(this.keyValue, action.evidence_uri);
    }
    const creations = actions.map(({ action, stream, owner }, n) => {
      return { stream, facts: decide(action, owner), context: contexts[n]! };
    });
    const outcomes = await this.writer.createEach(creations);
    return outcomes.map((outcome, n) => {
      if (outcome instanceof Error) return outcome;
      const { events, position } = outcome;
      const { action } = actions[n]!;
      return conflictWith(events, action, contexts[n]!) ?? { action_id: events[0]!.id, position };
    });
  }
}

@CommandHandler(RelayAction)
export class RelayActionHandler implements ICommandHandler<RelayAction> {
  constructor(
    private readonly writer: Writer,
    private readonly platforms: Platforms,
    private readonly recorder: ActionRecorder,
    private readonly limit: MetricLimit,
  ) {}

  /**
   * @throws Problem self_statement, platform_not_owned, too_many_metrics, external_id_conflict, idempotency_key_reused
   */
  async execute({ action, context, organization }: RelayAction): Promise<Relayed> {
    refuseSelfStatement(organization, action.tris_id);
    const owner = await this.platforms.ownerOf(action.platform_id);
    refuseUnlessOwned(action.platform_id, organization, owner);
    const stream = actionStream(action, context.idempotency, randomUUID);
    // Without an external_id the stream belongs to this Idempotency-Key alone.
    const refuse =
      action.external_id === null
        ? undefined
        : (history: readonly NewEvent[]) => refuseIfOther(history, action, context);
    return this.limit.within({ action, owner, stream }, async () => {
      await this.writer.claim(stream, context, refuse);
      return this.recorder.record(action, stream, owner, context);
    });
  }

  /**
   * As `execute` of each, at the same time: what they have in common is looked up once.
   * @param relays of different streams, of one request; several only without Idempotency-Key and `evidence_uri`
   * @returns in their order; what was refused or failed has its error as the outcome
   */
  async executeEach(relays: readonly RelayAction[]): Promise<(Relayed | Error)[]> {
    const [only] = relays;
    if (only && relays.length === 1) return [await this.execute(only).catch((error: Error) => error)];
    const platforms = [...new Set(relays.map(({ action }) => action.platform_id))];
    const found = await Promise.all(platforms.map((id) => this.platforms.ownerOf(id).catch((error: Error) => error)));
    const owners = new Map(platforms.map((id, n) => [id, found[n]!]));
    const refusals = relays.map(({ action, organization }) => {
      const owner = owners.get(action.platform_id)!;
      try {
        refuseSelfStatement(organization, action.tris_id);
        if (owner instanceof Error) return owner;
        refuseUnlessOwned(action.platform_id, organization, owner);
        return undefined;
      } catch (refusal) {
        return refusal as Error;
      }
    });
    const permitted = relays.filter((_, n) => refusals[n] === undefined);
    const outcomes = await this.limit.withinEach(
      permitted.map(({ action, context }) => {
        const owner = owners.get(action.platform_id) as string | null;
        return { action, owner, stream: actionStream(action, null, randomUUID), body_hash: context.body_hash };
      }),
      (actions) => this.recorder.recordEach(actions, relays[0]!.context),
    );
    return refusals.map((refusal) => refusal ?? outcomes.shift()!);
  }
}

/** The stream of an action contains no other action. @throws Problem external_id_conflict */
function refuseIfOther(events: readonly NewEvent[], action: Action, context: CommandContext): void {
  const conflict = conflictWith(events, action, context);
  if (conflict) throw conflict;
}

function conflictWith([relayed]: readonly NewEvent[], action: Action, context: CommandContext): Problem | undefined {
  if (relayed === undefined || relayed.metadata.body_hash === context.body_hash) return undefined;
  return new Problem(
    'external_id_conflict',
    `${action.platform_id} already relayed another action with external_id ${JSON.stringify(action.external_id)}. ` +
      'A retry must repeat the first request; a new action needs an id of its own.',
    { errors: [{ pointer: '/external_id', code: 'external_id_conflict', message: 'was used for another action' }] },
  );
}
