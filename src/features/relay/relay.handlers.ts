import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { NewEvent, Position, RecordedEvent } from '../../kernel/event.js';
import { type CommandContext, refuseSelfStatement } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { keepText } from '../../commands/kept-texts.js';
import { Platforms, refuseUnlessOwned } from '../organizations/platforms.js';
import { idempotencyKeyReused, Problem } from '../../kernel/problems.js';
import { BatchPerTurn } from '../../kernel/turn.js';
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
  ) {
    super();
  }
}

/** An action to be recorded. */
interface Recording {
  action: Action;
  stream: string;
  /** TRIS of the organization that owns the platform, or null. */
  owner: string | null;
  context: CommandContext;
}

/** Writes actions to their streams. Also used by imports and by the ingestion of chains. */
@Injectable()
export class ActionRecorder {
  constructor(
    private readonly writer: Writer,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** As `recordEach`, of one. @throws Problem external_id_conflict, idempotency_key_reused */
  async record(recording: Recording): Promise<Relayed> {
    const [outcome] = await this.recordEach([recording]);
    if (outcome instanceof Error) throw outcome;
    return outcome!;
  }

  /**
   * Writes actions to their streams, all at the same time, or finds those that are written already.
   * @param recordings those of one stream are written in any order
   * @returns in their order; what was refused or failed has its error as the outcome
   */
  async recordEach(recordings: readonly Recording[]): Promise<(Relayed | Error)[]> {
    const texts = new Map<Recording, () => Promise<void>>();
    const prepared = recordings.map((recording) => this.prepare(recording, texts));
    const failures = prepared.some(Boolean) ? await Promise.all(prepared) : prepared;
    const ready = failures.includes(undefined) ? recordings.filter((_, n) => !failures[n]) : [];
    const written = await this.writer.createEach(
      ready.map(({ action, stream, owner, context }) => ({ stream, facts: decide(action, owner), context })),
    );
    let next = 0;
    const removals: (() => Promise<void>)[] = [];
    const outcomes = recordings.map((recording, n) => {
      const failure = failures[n] as Error | undefined;
      if (failure) return failure;
      const outcome = written[next++]!;
      if (outcome instanceof Error) return outcome;
      const { events, position } = outcome;
      const conflict = conflictWith(events, recording.action, recording.context);
      const removeText = conflict && texts.get(recording);
      if (removeText) removals.push(removeText);
      return conflict ?? { action_id: events[0]!.id, position };
    });
    if (removals.length > 0) await Promise.all(removals.map((remove) => remove()));
    return outcomes;
  }

  /**
   * What is written before the action.
   * @param texts gets the function that removes its text again
   * @returns undefined: nothing; or why the action cannot be recorded
   */
  private prepare(
    recording: Recording,
    texts: Map<Recording, () => Promise<void>>,
  ): Promise<Error | undefined> | undefined {
    const { action, stream, context } = recording;
    if (!isPrepared(action, context)) return undefined;
    const prepare = async () => {
      if (context.idempotency !== null) await this.useKey(action, stream, context);
      if (action.evidence_uri === null) return undefined;
      const recorded = await this.writer.firstOf(stream);
      // Not for an action that is recorded already: its text may have been deleted.
      if (recorded) return conflictWith([recorded], action, context);
      texts.set(recording, await keepText(this.keyValue, action.evidence_uri));
      return undefined;
    };
    return prepare().catch((error: Error) => error);
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

/** Relays that arrive in one turn of the event loop and are recorded together, at most. */
const TOGETHER = 64;

@CommandHandler(RelayAction)
export class RelayActionHandler implements ICommandHandler<RelayAction> {
  private readonly plain: BatchPerTurn<RelayAction, Relayed>;
  /** Relays that write something before the action: others must not wait for that. */
  private readonly prepared: BatchPerTurn<RelayAction, Relayed>;

  constructor(
    private readonly platforms: Platforms,
    private readonly recorder: ActionRecorder,
    private readonly limit: MetricLimit,
    @Inject(EVENT_STORE) store: EventStore,
  ) {
    // A log with admission answers each append separately: together, all would wait for the slowest.
    const most = store.admission ? 1 : TOGETHER;
    const execute = (relays: readonly RelayAction[]) => this.executeEach(relays);
    this.plain = new BatchPerTurn(execute, most);
    this.prepared = new BatchPerTurn(execute, most);
  }

  /**
   * @throws Problem self_statement, platform_not_owned, too_many_metrics, external_id_conflict, idempotency_key_reused
   */
  execute(relay: RelayAction): Promise<Relayed> {
    const { action, context } = relay;
    return (isPrepared(action, context) ? this.prepared : this.plain).add(relay);
  }

  /**
   * As `execute` of each, at the same time: what they have in common is looked up once.
   * @param relays those of one stream are recorded in any order
   * @returns in their order; what was refused or failed has its error as the outcome
   */
  async executeEach(relays: readonly RelayAction[]): Promise<(Relayed | Error)[]> {
    const owners = await this.ownersOf(relays);
    const refusals = relays.map(({ action, context: { actor } }) => {
      const owner = owners.get(action.platform_id)!;
      try {
        refuseSelfStatement(actor.organization, action.tris_id);
        if (owner instanceof Error) return owner;
        refuseUnlessOwned(action.platform_id, actor.organization, owner);
        return undefined;
      } catch (refusal) {
        return refusal as Error;
      }
    });
    const permitted = relays.filter((_, n) => refusals[n] === undefined);
    const outcomes = await this.limit.withinEach(
      permitted.map(({ action, context }) => {
        const owner = owners.get(action.platform_id) as string | null;
        return { action, owner, stream: actionStream(action, context.idempotency, randomUUID), context };
      }),
      (recordings) => this.recorder.recordEach(recordings),
    );
    let next = 0;
    return refusals.map((refusal) => refusal ?? outcomes[next++]!);
  }

  /** The owners of their platforms; or why one cannot be known. */
  private async ownersOf(relays: readonly RelayAction[]): Promise<Map<string, string | null | Error>> {
    const platforms = [...new Set(relays.map(({ action }) => action.platform_id))];
    const found = await Promise.all(platforms.map((id) => this.platforms.ownerOf(id).catch((error: Error) => error)));
    return new Map(platforms.map((id, n) => [id, found[n]!]));
  }
}

/** Whether something is written before the action. */
function isPrepared(action: Action, context: CommandContext): boolean {
  return context.idempotency !== null || action.evidence_uri !== null;
}

/** Why an action cannot be in a stream with these events: they are of another action. */
function conflictWith([relayed]: readonly NewEvent[], action: Action, context: CommandContext): Problem | undefined {
  if (relayed === undefined || relayed.metadata.body_hash === context.body_hash) return undefined;
  if (action.external_id === null) return idempotencyKeyReused();
  return new Problem(
    'external_id_conflict',
    `${action.platform_id} already relayed another action with external_id ${JSON.stringify(action.external_id)}. ` +
      'A retry must repeat the first request; a new action needs an id of its own.',
    { errors: [{ pointer: '/external_id', code: 'external_id_conflict', message: 'was used for another action' }] },
  );
}
