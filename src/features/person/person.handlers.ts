import { createHash } from 'node:crypto';
import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { getAddress } from 'ethers/address';
import { eventsNaming } from '../../../projections/actions.js';
import { type CredonationRow, credonationsOf, isChange } from '../../../projections/credonations.js';
import { type DecisionRow, decisionsAbout } from '../../../projections/decisions.js';
import { disputesOf } from '../../../projections/disputes.js';
import { type DomainEvent, decodeEvent } from '../../../projections/events.js';
import { timelineOf } from '../../../projections/timeline.js';
import { type TroveEntry, troveList } from '../../../projections/trove.js';
import { type WalletRow, walletsOf } from '../../../projections/wallets.js';
import { keptText } from '../../commands/kept-texts.js';
import { QueryWith } from '../../commands/messages.js';
import type { Session } from '../../credentials/caller.js';
import type { RecordedEvent } from '../../kernel/event.js';
import { ERASURE } from '../../kernel/personal-data.js';
import { formatPosition, positionOf } from '../../kernel/positions.js';
import { Problem } from '../../kernel/problems.js';
import { mapInParts } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { AccessPolicies } from '../access/access-policies.js';
import { explanationOf } from '../access/domain/access-policy.js';
import { accessStream } from '../access/domain/decision.js';
import { walletStream } from '../accounts/domain/wallet.js';
import { toWallet } from '../accounts/wallets.handlers.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { badStatusOf, verificationsOf } from '../disc/score.js';
import { Platforms } from '../organizations/platforms.js';
import { disputedDto, storedDisputes } from '../disputes/stored-disputes.js';
import type { MeDto } from './person.dto.js';

type Person = Omit<MeDto, 'key_id' | 'scopes' | 'organization'>;

/** Whom a session acts for. */
export class GetPerson extends QueryWith<
  {
    session: Session;
    /** ms: when its access token expires. */
    expiresAt: number;
  },
  Person
> {}

@QueryHandler(GetPerson)
export class GetPersonHandler implements IQueryHandler<GetPerson> {
  constructor(
    private readonly views: Views,
    private readonly identities: IdentityReader,
  ) {}

  /** @throws Problem identity_not_found while the read models do not know the link of the wallet yet */
  async execute({ input }: GetPerson): Promise<Person> {
    const { wallet, chainId, trisId } = input.session;
    const session = {
      wallet: getAddress(wallet),
      chain_id: chainId,
      expires_at: new Date(input.expiresAt).toISOString(),
    };
    if (trisId === null) return { tris_ids: [], session, wallets: [], verification: [], disputes: [] };
    const snapshot = await this.identities.snapshot(trisId, {});
    const { page } = await this.views.page<WalletRow>(walletsOf(trisId), { cursor: undefined, limit: 100 }, /^/);
    const disputes = await storedDisputes(this.views, snapshot.reader.row.disputes ?? [], snapshot.position);
    return {
      tris_ids: [trisId],
      session,
      wallets: page.map(toWallet),
      verification: verificationsOf(snapshot),
      ...badStatusOf(snapshot.state.bad_status),
      disputes: disputes.map((dispute) => ({
        ...disputedDto(dispute),
        opened_at: new Date(dispute.opened_at).toISOString(),
      })),
    };
  }
}

/** Everything that is recorded about the TRIS of a session, as lines. */
export class ExportPerson extends QueryWith<{ session: Session }, AsyncIterable<string>> {}

/** Rows read at a time. */
const ROWS = 250;
/** Members of events that are hashes of kept texts. */
const TEXTS = ['evidence_hash', 'title_hash', 'uri_hash', 'statement_hash', 'note_hash'];
/** Members of events that name an organization or issuer, or else the key that an operator used. */
const WHO = new Set(['issuer', 'decided_by', 'lifted_by', 'acknowledged_by']);
const withoutKeys = (name: string, value: unknown): unknown =>
  WHO.has(name) && /^(?:key|cli):/.test(String(value)) ? null : value;

@QueryHandler(ExportPerson)
export class ExportPersonHandler implements IQueryHandler<ExportPerson> {
  constructor(
    private readonly views: Views,
    private readonly platforms: Platforms,
    private readonly policies: AccessPolicies,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** @throws Problem forbidden for a session without a TRIS */
  async execute({ input: { session } }: ExportPerson): Promise<AsyncIterable<string>> {
    const { trisId } = session;
    if (trisId === null) throw new Problem('forbidden', 'The session acts for no TRIS: nothing is recorded about it.');
    return this.lines(trisId, session);
  }

  /** One line for each event, many in a text; at the end the trailer of `credence export`, and what can be erased. */
  private async *lines(trisId: string, session: Session): AsyncIterable<string> {
    const hash = createHash('sha256');
    const lineOf = async (event: RecordedEvent) => `${JSON.stringify(await this.line(event, session), withoutKeys)}\n`;
    let [events, damaged] = [0, 0];
    for await (const read of this.events(trisId)) {
      const readable = read.filter((event) => !event.damage);
      damaged += read.length - readable.length;
      events += readable.length;
      const text = (await mapInParts(readable, lineOf)).join('');
      hash.update(text);
      if (text !== '') yield text;
    }
    const end_of_export = { events, damaged, sha256: hash.digest('hex'), about: trisId };
    yield `${JSON.stringify({ end_of_export, erasure: ERASURE })}\n`;
  }

  /** The events about an identity, a few hundred at a time; each kind in log order. */
  private async *events(trisId: string): AsyncIterable<RecordedEvent[]> {
    const at = async ({ sort }: RangeRow) => [(await this.store.readAt(positionOf(sort)))!];
    /** @param wanted the types of events that are read; default: all */
    const of =
      (streamOf: (value: never) => string, wanted = /^/) =>
      async ({ value }: RangeRow) =>
        (await this.store.readStream(streamOf(value as never))).filter(({ type }) => wanted.test(type));
    const lists: [list: { view: string; key: string }, read: (row: RangeRow) => Promise<RecordedEvent[]>][] = [
      [timelineOf(trisId), at],
      // Withdrawals are rows of this list, too, and were read with the timeline.
      [credonationsOf(trisId), async (row) => (isChange(row.value as CredonationRow) ? [] : at(row))],
      [eventsNaming(trisId), at],
      [decisionsAbout(trisId), of(({ jti }: DecisionRow) => accessStream(jti))],
      // The action of a record is in its stream, too.
      [troveList(trisId, null), of(({ record_id }: TroveEntry) => `trove-${record_id}`, /^Trove/)],
      [disputesOf({ about: trisId }, false), of((disputeId: string) => `dispute-${disputeId}`)],
      [walletsOf(trisId), of(({ wallet }: WalletRow) => walletStream(wallet), /^SessionsEnded$/)],
    ];
    for (const [list, read] of lists) {
      for await (const rows of this.views.parts({ ...list, limit: ROWS })) {
        yield (await mapInParts(rows, read)).flat();
      }
    }
  }

  /** An event as its subject sees it: the organization behind it, but no ids of keys and no private thresholds. */
  private async line(recorded: RecordedEvent, session: Session): Promise<object> {
    const event = decodeEvent(recorded);
    const texts: Record<string, string> = {};
    for (const name of TEXTS) {
      const hash = (event.data as Record<string, unknown>)[name];
      const text = typeof hash === 'string' ? await keptText(this.keyValue, hash) : null;
      if (text !== null) texts[name.replace('_hash', '')] = text;
    }
    const { id, type, occurred_at, recorded_at, position } = event;
    return {
      event_id: id,
      type,
      position: formatPosition(this.store.logId, position),
      occurred_at: new Date(occurred_at).toISOString(),
      recorded_at: new Date(recorded_at).toISOString(),
      ...(await this.seenBy(session, event)),
      ...(Object.keys(texts).length > 0 && { texts }),
    };
  }

  private async seenBy(
    session: Session,
    { type, data }: DomainEvent,
  ): Promise<{ organization?: string | null; data: object }> {
    if (type === 'AccessChecked') {
      const policy = await this.policies.get(data.policy_id);
      const reader = { organization: null, scopes: new Set<string>(), session };
      return { organization: policy.owner, data: { ...data, ...explanationOf(data, policy, reader) } };
    }
    if (!('platform_id' in data) || data.platform_id === null) return { data };
    return { organization: await this.platforms.ownerOf(data.platform_id), data };
  }
}
