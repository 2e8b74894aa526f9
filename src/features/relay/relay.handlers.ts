import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { NewEvent, Position, RecordedEvent } from '../../kernel/event.js';
import { Batches, type ItemOutcome, keyOfItem } from '../../commands/batches.js';
import { type CommandContext, bodyHash, ownerOfTurns, refuseSelfStatement } from '../../commands/context.js';
import { Quotas } from '../../commands/quotas.js';
import { Writer } from '../../commands/writer.js';
import { mapInParts } from '../../kernel/turn.js';
import { Staleness } from '../../read-side/staleness.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { keepText } from '../../commands/kept-texts.js';
import { CommandWith } from '../../commands/messages.js';
import { Platforms, refuseUnlessOwned } from '../organizations/platforms.js';
import { Vetting } from '../organizations/vetting.js';
import { idempotencyKeyReused, Problem, fieldProblem } from '../../kernel/problems.js';
import { isFlags } from '../../scoring/names.js';
import { type Action, actionStream, decide, metricOf } from './domain/relay.js';
import type { Source } from './domain/relay.events.js';
import { MetricLimit } from './metric-limit.js';
import { RelayMetrics } from './relay-metrics.js';

export interface Relayed {
  action_id: string;
  /** As it was recorded, whatever a retry would decide now. */
  source: Source;
  position: Position;
}

export class RelayAction extends CommandWith<{ action: Action; context: CommandContext }, Relayed> {}

/** An action to be recorded. */
interface Recording {
  action: Action;
  stream: string;
  /** TRIS of the organization that owns the platform, or null. */
  owner: string | null;
  source: Source;
  context: CommandContext;
}

/** Writes actions to their streams. Also used by imports and by the ingestion of chains. */
@Injectable()
export class ActionRecorder {
  constructor(
    private readonly writer: Writer,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /**
   * Writes an action to its stream, or finds it there.
   * @throws Problem external_id_conflict, idempotency_key_reused
   */
  async record({ action, stream, owner, source, context }: Recording): Promise<Relayed> {
    if (context.idempotency !== null) await this.useKey(action, stream, context);
    // Not for an action that is recorded already: its text may have been deleted.
    const isNew = action.evidence_uri !== null && !(await this.isRecorded(stream));
    const removeText = isNew ? await keepText(this.keyValue, action.evidence_uri!) : undefined;
    const { events, position } = await this.writer.create(stream, decide(action, owner, source), context);
    const conflict = conflictWith(events, action, context);
    if (!conflict) {
      const { id, data } = events[0]!;
      // Before schema 2 all were vouched.
      return { action_id: id, source: (data['source'] as Source | undefined) ?? 'vouched', position };
    }
    await removeText?.();
    throw conflict;
  }

  async isRecorded(stream: string): Promise<boolean> {
    return (await this.writer.firstOf(stream)) !== undefined;
  }

  /** @throws Problem idempotency_key_reused, external_id_conflict */
  private async useKey(action: Action, stream: string, context: CommandContext): Promise<void> {
    if (action.external_id === null) return this.writer.idempotency.useOwnStream(stream, context);
    const refuse = (history: readonly RecordedEvent[]) => {
      const conflict = conflictWith(history, action, context);
      if (conflict) throw conflict;
    };
    // Where an action without an external_id would use the key.
    const own = actionStream({ ...action, external_id: null }, context.idempotency, randomUUID);
    await this.writer.idempotency.claim(stream, context, refuse, own);
  }
}

@CommandHandler(RelayAction)
export class RelayActionHandler implements ICommandHandler<RelayAction> {
  constructor(
    private readonly platforms: Platforms,
    private readonly vetting: Vetting,
    private readonly recorder: ActionRecorder,
    private readonly limit: MetricLimit,
    private readonly quotas: Quotas,
    private readonly metrics: RelayMetrics,
  ) {}

  /**
   * @param decided the source, where it was decided for several relays; default: that of the caller now
   * @throws Problem self_statement, platform_not_owned, quota_exceeded, too_many_metrics, external_id_conflict, idempotency_key_reused
   */
  async execute(command: RelayAction, decided?: Source): Promise<Relayed> {
    const { platform_id } = command.input.action;
    try {
      const relayed = await this.relay(command, decided);
      this.metrics.relays.inc(platform_id, 'accepted');
      return relayed;
    } catch (error) {
      this.metrics.relays.inc(platform_id, error instanceof Problem ? 'refused' : 'failed');
      throw error;
    }
  }

  private async relay({ input: { action, context } }: RelayAction, decided: Source | undefined): Promise<Relayed> {
    const { organization } = context.actor;
    refuseSelfStatement(organization, action.tris_id);
    const owner = await this.platforms.ownerOf(action.platform_id);
    refuseUnlessOwned(action.platform_id, organization, owner);
    // The caller's organization owns the platform, so its vetting decides. Operators need none.
    const source = decided ?? (await this.vetting.sourceFor(organization));
    const stream = actionStream(action, context.idempotency, randomUUID);
    const bytes = Buffer.byteLength(JSON.stringify(action));
    const by = ownerOfTurns(context.actor);
    const isRecorded = () => this.recorder.isRecorded(stream);
    const untake = await this.quotas.take(by, { actions: 1, bytes }, isRecorded);
    let metric: Awaited<ReturnType<MetricLimit['accept']>> = null;
    try {
      metric = await this.limit.accept({ action, owner }, stream);
      const recorded = await this.recorder.record({ action, stream, owner, source, context });
      if (metric) this.limit.recorded(metric);
      this.metrics.recorded(by, bytes, isFlags(metricOf(action)));
      return recorded;
    } catch (error) {
      untake();
      if (metric) this.limit.failed(metric);
      throw error;
    }
  }

  /** Looks up together what `execute` needs to know of many actions, each of which it would look up otherwise. */
  async lookUp(actions: readonly Action[]): Promise<void> {
    const platforms = [...new Set(actions.map(({ platform_id }) => platform_id))];
    const owners = new Map<string, string | null>();
    await mapInParts(platforms, async (platform) => {
      const owner = await this.platforms.ownerOf(platform).catch(() => undefined);
      if (owner !== undefined) owners.set(platform, owner);
    });
    const known = actions.filter(({ platform_id }) => owners.has(platform_id));
    await this.limit.lookUp(known.map((action) => ({ action, owner: owners.get(action.platform_id)! })));
  }
}

export type ActionOutcome = ItemOutcome<Relayed>;

/** Records many actions, each as if it were relayed alone: what happens to one makes no difference to the others. */
export class RelayActions extends CommandWith<
  {
    /** Validated actions, or why they are refused. */
    actions: readonly (Action | Problem)[];
    request: Omit<CommandContext, 'body_hash'>;
  },
  ActionOutcome[]
> {}

@CommandHandler(RelayActions)
export class RelayActionsHandler implements ICommandHandler<RelayActions> {
  private readonly batches: Batches;

  constructor(
    private readonly single: RelayActionHandler,
    private readonly vetting: Vetting,
    private readonly staleness: Staleness,
    @Inject(EVENT_STORE) store: EventStore,
  ) {
    this.batches = new Batches(store);
  }

  /**
   * @returns the outcome of each action, in order
   * @throws StoreUnavailable if the log took none of them, so that the whole request can be repeated
   */
  async execute({ input: { actions, request } }: RelayActions): Promise<ActionOutcome[]> {
    const { actor, correlation_id, idempotency, trace } = request;
    let source: Source;
    return this.batches.execute(
      ownerOfTurns(actor),
      actions,
      (action, index) => {
        const own = keyOfItem(idempotency, index);
        const context = { actor, correlation_id, idempotency: own, body_hash: bodyHash(action), trace };
        return this.single.execute(new RelayAction({ action, context }), source);
      },
      {
        holdBack: () => this.staleness.holdBack(actions.length),
        begin: async (group) => {
          // Once, so that a batch is not divided by a change of the vetting.
          source = await this.vetting.sourceFor(actor.organization);
          await this.single.lookUp(group);
        },
        orderOf: ({ platform_id, external_id }) => (external_id === null ? undefined : `${platform_id} ${external_id}`),
      },
    );
  }
}

/** Why an action cannot be in a stream with these events: they are of another action. */
function conflictWith([relayed]: readonly NewEvent[], action: Action, context: CommandContext): Problem | undefined {
  if (relayed === undefined || relayed.metadata.body_hash === context.body_hash) return undefined;
  if (action.external_id === null) return idempotencyKeyReused();
  const detail =
    `${action.platform_id} already relayed another action with external_id ${JSON.stringify(action.external_id)}. ` +
    'A retry must repeat the first request; a new action needs an id of its own.';
  return fieldProblem('/external_id', 'external_id_conflict', 'was used for another action', detail);
}
