import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { type IdentityRow, identityRow } from '../../../projections/identities.js';
import { disputesOf } from '../../../projections/disputes.js';
import { type Actor, type CommandContext, type Recorded, refuseSelfStatement } from '../../commands/context.js';
import { keptText, withTexts } from '../../commands/kept-texts.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { type Update, Writer } from '../../commands/writer.js';
import { sha256Hex } from '../../kernel/hash.js';
import { TRIS_ID } from '../../kernel/identifiers.js';
import { POSITION_SORT } from '../../kernel/positions.js';
import { Problem, refusalOf } from '../../kernel/problems.js';
import { mapInParts } from '../../kernel/turn.js';
import { Turns } from '../../kernel/turns.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { RefreshFamilies } from '../accounts/refresh-families.js';
import { type GrantableStatus, identityStream, operatorStateOf } from '../identity/domain/identity.js';
import { stateOf } from '../relay/domain/withdrawal.js';
import { RecordedActions } from '../relay/recorded-actions.js';
import type { DisputeDto, DisputesDto, DisputesQuery } from './disputes.dto.js';
import {
  type Dispute,
  type Disputed,
  type Outcome,
  DISPUTES_ACTOR,
  decideAnswer,
  decideOpen,
  disputeIdOf,
  disputeOf,
  disputeStream,
} from './domain/dispute.js';
import { DisputeOutcomes } from './dispute-outcomes.js';
import { disputedDto, storedDisputes } from './stored-disputes.js';

/** The most open disputes of an identity. Processes that accept some at the same moment may each accept the last. */
const MOST_OPEN = 20;

/** An action; or a verification, by status and issuer (null: the only one); or the BAD status, if the status is null. */
type Asked = { action_id: string } | { status: GrantableStatus | null; issuer: string | null };

/** Opens the dispute of a statement about the TRIS of a session. */
export class OpenDispute extends CommandWith<
  { asked: Asked; statement: string | null; context: CommandContext },
  Recorded<DisputeDto>
> {}

@CommandHandler(OpenDispute)
export class OpenDisputeHandler implements ICommandHandler<OpenDispute> {
  private readonly turns = new Turns(Infinity, 1);

  constructor(
    private readonly writer: Writer,
    private readonly views: Views,
    private readonly families: RefreshFamilies,
    private readonly actions: RecordedActions,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /**
   * @throws Problem forbidden, not_found, statement_withdrawn, dispute_open, dispute_answered, too_many_disputes,
   * idempotency_key_reused, write_conflict, projection_behind
   */
  async execute({ input: { asked, statement, context } }: OpenDispute): Promise<Recorded<DisputeDto>> {
    const { session } = context.actor;
    const trisId = session && (await this.families.standingOf(session)).trisId;
    if (!trisId) throw new Problem('forbidden', 'Only a session of a wallet that is linked to a TRIS can dispute.');
    // What is disputed may have changed since.
    const update = (await this.writer.firstTry(context)) ?? (await this.open(trisId, asked, statement, context));
    const body = await dtoOf(disputeOf(update.history)!, this.keyValue, context.actor);
    return { body, position: update.position };
  }

  private async open(trisId: string, asked: Asked, statement: string | null, context: CommandContext): Promise<Update> {
    const disputed = await this.disputed(trisId, asked);
    const stream = disputeStream(disputeIdOf(trisId, disputed.event_id));
    const hash = statement === null ? null : sha256Hex(statement);
    return this.turns.run(trisId, async () => {
      const news = decideOpen(disputeOf(await this.store.readStream(stream)), disputed, hash);
      if (news.length > 0) await this.refuseTooMany(trisId);
      const texts = news.length > 0 && statement !== null ? [statement] : [];
      return withTexts(this.keyValue, texts, () =>
        this.writer.execute(stream, context, (history) => decideOpen(disputeOf(history), disputed, hash)),
      );
    });
  }

  private async refuseTooMany(trisId: string): Promise<void> {
    await this.views.requirePosition(await this.store.head(), 'The read models have not applied all disputes yet.');
    const { results } = await this.views.read([{ get: identityRow(trisId) }]);
    if (((results[0] as IdentityRow | undefined)?.disputes ?? []).length < MOST_OPEN) return;
    throw new Problem('too_many_disputes', `${trisId} may have at most ${MOST_OPEN} open disputes.`);
  }

  private async disputed(tris_id: string, asked: Asked): Promise<Disputed> {
    const none = { tris_id, action_id: null, platform_id: null, status: null, issuer: null };
    if ('action_id' in asked) {
      const { action, owner } = await this.actions.find(asked.action_id);
      const { id: action_id, data } = action.relayed;
      if (data.tris_id !== tris_id) throw new Problem('forbidden', `The action is not about ${tris_id}.`);
      if (stateOf(action) === 'withdrawn') {
        throw new Problem('statement_withdrawn', `The action ${action_id} is withdrawn: it counts nowhere.`);
      }
      // What a rejection let count again is the statement that it was before.
      const again = action.changes.findLast(({ type, by }) => type === 'ActionReinstated' && by !== DISPUTES_ACTOR);
      const event_id = again?.id ?? action_id;
      const { platform_id } = data;
      return { ...none, about: 'action', event_id, action_id, platform_id, issuer: owner ?? action.by };
    }
    const history = await this.store.readStream(identityStream(tris_id));
    const state = operatorStateOf(history);
    const { status, issuer } = asked;
    if (status === null) {
      const set = state.bad_status && history.findLast(({ type }) => type === 'BadStatusSet');
      if (!set) throw new Problem('not_found', `No BAD status of ${tris_id} is set.`);
      return { ...none, about: 'bad_status', event_id: set.id };
    }
    const held = state.verifications.filter((one) => one.status === status && issuer === (issuer && one.issuer));
    const [first] = held;
    if (!first) throw new Problem('not_found', `${tris_id} holds no such verification.`);
    if (held.some((other) => other.issuer !== first.issuer)) {
      throw refusalOf('/issuer', 'required', 'issuer is missing: several have granted this status');
    }
    const granted = history.findLast(
      ({ type, data }) =>
        type === 'VerificationGranted' && data['status'] === status && data['issuer'] === first.issuer,
    )!;
    return { ...none, about: 'verification', event_id: granted.id, status, issuer: first.issuer };
  }
}

/** Answers a dispute. Asked again, gives the first answer. */
export class AnswerDispute extends CommandWith<
  { dispute_id: string; outcome: Outcome; note: string | null; context: CommandContext },
  Recorded<DisputeDto>
> {}

@CommandHandler(AnswerDispute)
export class AnswerDisputeHandler implements ICommandHandler<AnswerDispute> {
  constructor(
    private readonly writer: Writer,
    private readonly outcomes: DisputeOutcomes,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** @throws Problem not_found, forbidden, self_statement, dispute_answered, idempotency_key_reused, write_conflict */
  async execute({ input: { dispute_id, outcome, note, context } }: AnswerDispute): Promise<Recorded<DisputeDto>> {
    const stream = disputeStream(dispute_id);
    const dispute = disputeOf(await this.store.readStream(stream));
    if (!dispute) throw new Problem('not_found', `There is no dispute ${dispute_id}.`);
    refuseAnswer(dispute, context.actor);
    const answer = {
      outcome,
      decided_by: context.actor.organization ?? context.actor.name,
      note_hash: note === null ? null : sha256Hex(note),
    };
    const record = () => {
      const texts = note !== null && decideAnswer(dispute, answer).length > 0 ? [note] : [];
      return withTexts(this.keyValue, texts, () =>
        this.writer.execute(stream, context, (history) => decideAnswer(disputeOf(history)!, answer)),
      );
    };
    const update = (await this.writer.firstTry(context)) ?? (await record());
    const isDue = dispute.action_id !== null && (outcome === 'upheld' || dispute.state === 'lapsed');
    if (isDue) await this.outcomes.enqueue({ dispute_id, position: update.position });
    const body = await dtoOf(disputeOf(update.history)!, this.keyValue, context.actor);
    return { body, position: update.position };
  }
}

/** @throws Problem self_statement, forbidden */
function refuseAnswer({ tris_id, about, issuer }: Dispute, { name, organization, scopes }: Actor): void {
  refuseSelfStatement(organization, tris_id);
  if (organization === null && scopes.has('ops')) return;
  const needed = about === 'action' ? 'relay:write' : 'identity:write';
  if (issuer !== null && issuer === (organization ?? name) && scopes.has(needed)) return;
  throw new Problem('forbidden', `Only who made the statement, with "${needed}", and operators may answer.`);
}

/** Disputes that a caller may read. */
export class ListDisputes extends QueryWith<DisputesQuery & { actor: Actor }, DisputesDto> {}

@QueryHandler(ListDisputes)
export class ListDisputesHandler implements IQueryHandler<ListDisputes> {
  constructor(
    private readonly views: Views,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** @throws Problem unknown_cursor */
  async execute({ input: { open, limit, cursor, actor } }: ListDisputes): Promise<DisputesDto> {
    const { session, organization, scopes, name } = actor;
    if (session?.trisId === null) return { disputes: [], next_cursor: null };
    const isOperator = organization === null && scopes.has('ops');
    const who = session ? { about: session.trisId! } : isOperator ? null : { by: organization ?? name };
    const listed = await this.views.page<string>(disputesOf(who, open), { cursor, limit }, POSITION_SORT);
    const found = await storedDisputes(this.views, listed.page, listed.position);
    const disputes = await mapInParts(found, (dispute) => dtoOf(dispute, this.keyValue, actor));
    return { disputes, next_cursor: listed.next_cursor };
  }
}

async function dtoOf(dispute: Dispute, texts: KeyValue, { session }: Actor): Promise<DisputeDto> {
  const text = (hash: string | null) => (hash === null ? null : keptText(texts, hash));
  const named = (who: string | null) => (session && who !== null && !TRIS_ID.test(who) ? null : who);
  const { issuer, lapsed, answers } = dispute;
  return {
    ...disputedDto(dispute),
    issuer: named(issuer),
    statement: await text(dispute.statement_hash),
    opened_at: new Date(dispute.opened_at).toISOString(),
    open: dispute.state === 'open',
    status: dispute.state,
    lapsed_at: lapsed && new Date(lapsed.at).toISOString(),
    answers: await Promise.all(
      answers.map(async ({ outcome, answered_at, decided_by, note_hash }) => ({
        outcome,
        answered_at: new Date(answered_at).toISOString(),
        decided_by: named(decided_by),
        note: await text(note_hash),
      })),
    ),
  };
}
