import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { Counter, Registry } from 'prom-client';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { NewEvent, RecordedEvent } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { fact, hashedStream } from '../../kernel/event-definition.js';
import type { Actor, CommandRequest, Created } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import { type Update, Writer } from '../../commands/writer.js';
import { identityStream, operatorStateOf } from '../identity/domain/identity.js';
import { Problem, refusalOf } from '../../kernel/problems.js';
import { RefreshFamilies } from '../accounts/refresh-families.js';
import { Schemes, retired } from './schemes.handlers.js';
import { decideProven, grantOf, readSignals } from './domain/verification.js';
import { nullifierUsed } from './domain/verifications.events.js';
import type { SubmitProofDto, VerificationGrantedDto } from './verifications.dto.js';
import { ProofVerifier } from './verifier.js';

/** Verifies a proof and grants the status of its scheme. */
export class SubmitProof extends CommandWith<
  { submission: SubmitProofDto; request: CommandRequest },
  Created<VerificationGrantedDto>
> {}

@CommandHandler(SubmitProof)
export class SubmitProofHandler implements ICommandHandler<SubmitProof> {
  private readonly counter: Counter<'outcome'>;

  constructor(
    private readonly writer: Writer,
    private readonly schemes: Schemes,
    private readonly verifier: ProofVerifier,
    private readonly families: RefreshFamilies,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(CLOCK) private readonly clock: Clock,
    registry: Registry,
  ) {
    this.counter = new Counter({
      name: 'credence_proofs_total',
      help: 'Submitted proofs by outcome: granted, held already, or the code of the refusal',
      labelNames: ['outcome'],
      registers: [registry],
    });
  }

  async execute(command: SubmitProof) {
    try {
      const result = await this.submit(command);
      this.counter.inc({ outcome: result.own ? 'granted' : 'held' });
      return result;
    } catch (error) {
      this.counter.inc({ outcome: error instanceof Problem ? error.code : 'failed' });
      throw error;
    }
  }

  /**
   * @throws Problem forbidden, session_revoked, scheme_not_found, scheme_retired, validation_failed, self_statement,
   * public_signal_mismatch, verifier_unavailable, proof_invalid, nullifier_used, proof_expired, verification_revoked
   */
  private async submit({ input: { submission, request } }: SubmitProof) {
    const { scheme: id, proof, public_signals: signals, tris_id: named } = submission;
    const trisId = await this.subjectOf(named, request.actor);
    // Without the proof: anyone can derive further proofs of the same statement.
    const context = request.of({ scheme: id, public_signals: signals, tris_id: trisId });
    const stream = identityStream(trisId);
    // A retry gets the first answer, even if the scheme or the credential is no longer valid.
    const first = await this.writer.firstTry(context);
    if (first) return answerOf(first, trisId, id);
    const { scheme, nullifier, expires_at } = await this.stated(submission, trisId);
    const { verification_key_hash: hash, verification_key: key } = scheme;
    const verdict = await this.verifier.verify({ hash, key, proof, signals }, request.actor.name);
    if (typeof verdict === 'object') throw refusalOf(`/proof${verdict.pointer}`, 'not_a_point', verdict.message);
    if (!verdict) throw new Problem('proof_invalid', `The proof does not prove these signals under the scheme ${id}.`);
    // While it waited for a thread, the session may have ended, the scheme been retired, or its root removed.
    await this.subjectOf(named, request.actor);
    await this.stated(submission, trisId);

    const grant = grantOf(scheme, trisId, signals, expires_at);
    const nullifierStream = hashedStream(`nullifier-${scheme.scope}`, nullifier);
    // Before the claim, so that a refused request leaves nothing in the log.
    refuseIfOthers(await this.store.readStream(nullifierStream), scheme.scope, trisId);
    decideProven(await this.store.readStream(stream), grant, this.clock());
    await this.writer.idempotency.claim(stream, context);
    // First the nullifier, then the grant: after a failure between the two, the proof can be sent again.
    const use = fact(nullifierUsed, { scope: scheme.scope, tris_id: trisId });
    const { events } = await this.writer.create(nullifierStream, [use], context);
    refuseIfOthers(events, scheme.scope, trisId);
    const decide = (history: readonly RecordedEvent[]) => decideProven(history, grant, this.clock());
    return answerOf(await this.writer.update(stream, context, decide), trisId, id);
  }

  /** The scheme as it is now, and what the signals state under it. */
  private async stated({ scheme: id, public_signals: signals }: SubmitProofDto, trisId: string) {
    const scheme = await this.schemes.get(id);
    if (scheme.retired) throw retired(id);
    if (signals.length !== scheme.public_inputs.length) {
      const message = `the scheme ${id} has ${scheme.public_inputs.length} public signals, not ${signals.length}`;
      throw refusalOf('/public_signals', 'signal_count', message);
    }
    if (scheme.issuer === trisId) {
      throw new Problem('self_statement', `The scheme ${id} is ${trisId}'s own: it cannot verify ${trisId} itself.`);
    }
    return { scheme, ...readSignals(scheme, signals, trisId) };
  }

  /** A key may name any TRIS, since the proof is bound to it. A session verifies its own, which it may leave out. */
  private async subjectOf(named: string | undefined, { session }: Actor): Promise<string> {
    if (!session) {
      if (named !== undefined) return named;
      throw refusalOf('/tris_id', 'required', 'tris_id is missing: a key must name the TRIS');
    }
    const { trisId } = await this.families.standingOf(session);
    if (trisId !== null && (named ?? trisId) === trisId) return trisId;
    throw new Problem('forbidden', 'A session can verify only the TRIS that it acts for.');
  }
}

/** The verification by a scheme as a command left it. */
function answerOf(update: Update, tris_id: string, id: string): Created<VerificationGrantedDto> {
  const { verifications } = operatorStateOf(update.history);
  const { status, issuer, scheme, expires_at } = verifications.find((one) => one.scheme === id)!;
  const { position, own } = update;
  return { body: { tris_id, status, issuer, scheme, expires_at: expires_at! }, position, own };
}

/** The first event of a nullifier stream names the identity that used the nullifier. */
function refuseIfOthers([used]: readonly NewEvent[], scope: string, trisId: string): void {
  if (used === undefined || used.data['tris_id'] === trisId) return;
  const detail = `The holder of this credential has verified another identity in the scope ${scope}.`;
  throw new Problem('nullifier_used', detail);
}
