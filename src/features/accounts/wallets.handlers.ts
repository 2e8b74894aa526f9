import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { getAddress } from 'ethers/address';
import { type WalletRow, walletsAssertedBy, walletsOf } from '../../../projections/wallets.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import { type Actor, type CommandContext, refuseSelfStatement } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import type { Session } from '../../credentials/caller.js';
import { Writer } from '../../commands/writer.js';
import { Problem, refuseMisspelled } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { Challenges } from './challenges.js';
import { RefreshFamilies } from './refresh-families.js';
import { type SignedMessage, Signatures } from './signatures.js';
import { challengeIn, nonceOf } from './siwe.js';
import { WalletLinks } from './wallet-links.js';
import type { WalletDto, WalletsDto } from './wallets.dto.js';
import {
  type Link,
  decideEndSessions,
  decideUnlink,
  isAssertedBy,
  isFounder,
  linkOf,
  ownTris,
  signedLink,
  trisActedFor,
  walletStream,
} from './domain/wallet.js';

/** Links a wallet that signed for it, on behalf of a session of the TRIS or of an operator. */
export class LinkWallet extends CommandWith<
  { signed: SignedMessage; context: CommandContext },
  { wallet: string; trisId: string; position: Position }
> {}

@CommandHandler(LinkWallet)
export class LinkWalletHandler implements ICommandHandler<LinkWallet> {
  constructor(
    private readonly challenges: Challenges,
    private readonly signatures: Signatures,
    private readonly families: RefreshFamilies,
    private readonly links: WalletLinks,
    private readonly writer: Writer,
  ) {}

  /** @throws Problem forbidden, siwe_*, nonce_used, chain_*, wallet_already_linked, idempotency_key_reused */
  async execute({ input: { signed, context } }: LinkWallet) {
    const { message, signature } = signed;
    const session = context.actor.session && (await this.families.standingOf(context.actor.session));
    const first = await this.writer.firstTry(context);
    if (first) {
      // Its message cannot be used again. This is the same one.
      const { address, tris_id } = challengeIn(message, nonceOf(message)!);
      return { wallet: address, trisId: tris_id!, position: first.position };
    }
    const challenge = await this.challenges.find(message, ['link']);
    const trisId = challenge.tris_id!;
    if (session ? session.trisId !== trisId : context.actor.organization !== null) throw notYours(trisId);
    const chainId = await this.signatures.judge(challenge, signature);
    // The session may have ended while a chain was asked.
    if (session) await this.families.standingOf(session);
    const wallet = challenge.address;
    return { wallet, trisId, position: await this.links.link(wallet, signedLink(trisId, chainId), context) };
  }
}

/** Links a wallet on the statement of a key, or of the session of the wallet itself (requirement 30). */
export class LinkAccount extends CommandWith<{ wallet: string; trisId: string; context: CommandContext }, Position> {}

@CommandHandler(LinkAccount)
export class LinkAccountHandler implements ICommandHandler<LinkAccount> {
  constructor(
    private readonly families: RefreshFamilies,
    private readonly links: WalletLinks,
  ) {}

  /** @throws Problem forbidden, self_statement, wallet_already_linked, idempotency_key_reused */
  async execute({ input: { wallet, trisId, context } }: LinkAccount) {
    const { session: claimed, organization } = context.actor;
    refuseSelfStatement(organization, trisId);
    if (!claimed) {
      const link: Link = { tris_id: trisId, proof: 'asserted', chain_id: null, asserted_by: organization };
      return this.links.link(wallet, link, context);
    }
    // A session can only link its own wallet, either to the TRIS it acts for or to the wallet's own TRIS.
    const session = await this.families.standingOf(claimed);
    if (session.wallet !== wallet.toLowerCase()) {
      throw new Problem(
        'forbidden',
        'A session can link only its own wallet here. For another wallet, send its signature to /v1/wallets/link.',
      );
    }
    const isOwn = trisId === ownTris(session.wallet, session.chainId);
    // By the link itself: it may have been ended since, and would begin again.
    return this.links.link(wallet, signedLink(trisId, session.chainId), context, (link) => {
      if (!isOwn && trisActedFor(link, session.chainId) !== trisId) throw notYours(trisId);
    });
  }
}

/** Ends a link, and the wallet's sessions with it. */
export class UnlinkWallet extends CommandWith<
  {
    wallet: string;
    /** By the wallet, with the purpose `unlink`. */
    consent: SignedMessage | null;
    /** Of an operator. */
    reasonCode: string | null;
    context: CommandContext;
  },
  { trisId: string; position: Position }
> {}

@CommandHandler(UnlinkWallet)
export class UnlinkWalletHandler implements ICommandHandler<UnlinkWallet> {
  constructor(
    private readonly challenges: Challenges,
    private readonly signatures: Signatures,
    private readonly families: RefreshFamilies,
    private readonly writer: Writer,
  ) {}

  /**
   * @throws Problem wallet_not_linked, also for a link that a session must not know of; forbidden, signature_required,
   * siwe_*, nonce_used, idempotency_key_reused
   */
  async execute({ input: { wallet, consent, reasonCode, context } }: UnlinkWallet) {
    const { organization, scopes } = context.actor;
    if (reasonCode !== null && !(organization === null && scopes.has('ops')))
      throw new Problem('forbidden', 'reason_code is for operators’ keys only: leave it out.');
    let session = context.actor.session && (await this.families.standingOf(context.actor.session));
    const first = await this.writer.firstTry(context);
    // The message of a first try cannot be used again.
    const agreed = consent && !first ? await this.agreedBy(wallet, consent) : null;
    // While a chain was asked, the session may have ended.
    if (agreed && session) session = await this.families.standingOf(session);
    // Decided again if the link changes meanwhile.
    const decide = (history: readonly RecordedEvent[]) => {
      const link = linkOf(history);
      if (link === null) throw notLinked();
      if (session) refuseToSession(session, wallet, link, agreed);
      else if (reasonCode === null) refuseToKey(context.actor, link, history);
      // The wallet's sessions by the link end with it. An operator ends those on every chain.
      const ends =
        reasonCode === null ? [] : decideEndSessions(wallet, { reason: 'operator', reason_code: reasonCode });
      return [...ends, ...decideUnlink(link, wallet)];
    };
    const { events, position } = first ?? (await this.writer.execute(walletStream(wallet), context, decide));
    return { trisId: events.at(-1)!.data['tris_id'] as string, position };
  }

  /** The TRIS of the link that the wallet agrees to end, and the chain it signed on. @throws Problem siwe_* */
  private async agreedBy(wallet: string, { message, signature }: SignedMessage): Promise<Consent> {
    const challenge = await this.challenges.find(message, ['unlink']);
    if (challenge.address.toLowerCase() !== wallet.toLowerCase()) {
      throw new Problem('siwe_address', 'The message was issued for another wallet.');
    }
    return { trisId: challenge.tris_id, chainId: await this.signatures.judge(challenge, signature) };
  }
}

type Consent = { trisId: string | null; chainId: number | null };

/**
 * A session of the TRIS can end any of its links, a session of the wallet only its own. No session alone ends the link of
 * the wallet that founded the TRIS: with a stolen session, the owner could be locked out.
 * @throws Problem wallet_not_linked for a link that the session must not know of; signature_required
 */
function refuseToSession(session: Session, wallet: string, link: Link, consent: Consent | null): void {
  const isOwnWallet = session.wallet === wallet.toLowerCase();
  const isOwnLink = isOwnWallet && (link.proof === 'asserted' || trisActedFor(link, session.chainId) !== null);
  if (link.tris_id !== session.trisId && !isOwnLink) throw notLinked();
  if (!isFounder(wallet, link)) return;
  if (consent?.trisId === link.tris_id && consent.chainId === link.chain_id) return;
  const detail = `This wallet founded ${link.tris_id}: it must sign a message with the purpose unlink.`;
  throw new Problem('signature_required', detail);
}

/**
 * A key can end asserted links: an organization's key those that its organization asserted. An operator's key with a
 * reason can end any link.
 * @throws Problem forbidden
 */
function refuseToKey(actor: Actor, link: Link, history: readonly RecordedEvent[]): void {
  if (link.proof === 'asserted' && (actor.organization === null || isAssertedBy(actor, link, history))) return;
  throw new Problem(
    'forbidden',
    'A key can end only asserted links, an organization’s key only those that its organization asserted, and an ' +
      'operator’s key any link with a reason_code.',
  );
}

/** The wallets of a TRIS by address: for its own session or an operator's key; for an organization's those it asserted. */
export class ListWallets extends QueryWith<
  { trisId: string; actor: Actor; limit: number; cursor: string | undefined },
  WalletsDto
> {}

@QueryHandler(ListWallets)
export class ListWalletsHandler implements IQueryHandler<ListWallets> {
  constructor(private readonly views: Views) {}

  /** @throws Problem identity_not_found if it is misspelled, validation_failed for a cursor of another list */
  async execute({ input: { trisId, actor, limit, cursor } }: ListWallets): Promise<WalletsDto> {
    const { organization } = actor;
    const { page, next_cursor } = await this.views.page<WalletRow>(
      organization === null ? walletsOf(trisId) : walletsAssertedBy(organization, trisId),
      { cursor, limit },
      /^0x[0-9a-f]{40}$/,
    );
    if (page.length === 0) refuseMisspelled(trisId);
    return { tris_id: trisId, wallets: page.map(toWallet), next_cursor };
  }
}

export const toWallet = ({ wallet, proof, chain_id, linked_at }: WalletRow): WalletDto => ({
  wallet: getAddress(wallet),
  proof,
  chain_id,
  linked_at: new Date(linked_at).toISOString(),
});

const notYours = (trisId: string): Problem =>
  new Problem('forbidden', `This requires a session of ${trisId} or an operator’s key.`);
const notLinked = (): Problem =>
  new Problem('wallet_not_linked', 'The wallet is not linked, or is not linked to your TRIS.');
