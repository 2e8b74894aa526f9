import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { Position } from '../../kernel/event.js';
import { bodyHash, jobContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import { EndSessions, WalletLinks } from './wallet-links.js';
import { Challenges } from './challenges.js';
import { RefreshFamilies } from './refresh-families.js';
import type { TokensDto } from './sessions.dto.js';
import { type SignedMessage, Signatures } from './signatures.js';
import type { Challenge } from './siwe.js';
import { Problem } from '../../kernel/problems.js';
import { isFounder, ownTris, signedLink } from './domain/wallet.js';

/** What commands of the wallet that signed a message need. A message can be used once, so there is no retry. */
type Signed = { signed: SignedMessage; correlationId: string };

/** Starts a session for the wallet that signed a message. */
export class SignIn extends CommandWith<Signed, { tokens: TokensDto; position: Position | null }> {}

@CommandHandler(SignIn)
export class SignInHandler implements ICommandHandler<SignIn> {
  constructor(
    private readonly challenges: Challenges,
    private readonly signatures: Signatures,
    private readonly links: WalletLinks,
    private readonly families: RefreshFamilies,
  ) {}

  /** @throws Problem siwe_*, nonce_used, chain_not_configured, chain_unavailable, wallet_already_linked */
  async execute({ input: { signed, correlationId } }: SignIn) {
    const challenge = await this.challenges.find(signed.message, ['sign_in', 'claim']);
    const chainId = await this.signatures.judge(challenge, signed.signature);
    const wallet = challenge.address;
    // Of the claim; null: nothing was written.
    let position: Position | null = null;
    if (challenge.purpose === 'claim') {
      const link = signedLink(await this.claimedBy(challenge, chainId), chainId);
      const context = jobContext(`session:${link.tris_id}`, correlationId, bodyHash(signed));
      position = await this.links.link(wallet, link, context);
    }
    return { tokens: await this.families.begin(wallet, chainId, signed), position };
  }

  /** @throws Problem siwe_claim if the message names the id of another kind of wallet */
  private async claimedBy({ address, tris_id }: Challenge, chainId: number | null): Promise<string> {
    const link = await this.links.of(address);
    // A repeated claim is a sign-in, also to an older id of a contract, without its chain.
    if (link?.chain_id === chainId && isFounder(address, link)) return link.tris_id;
    const own = ownTris(address, chainId);
    if (tris_id === null || tris_id === own) return own;
    const detail = `The message claims ${tris_id}. By this signature the wallet can claim ${own} only; start again.`;
    throw new Problem('siwe_claim', detail);
  }
}

/** Replaces a refresh token and issues an access token. */
export class RefreshSession extends CommandWith<{ refreshToken: string; correlationId: string }, TokensDto> {}

@CommandHandler(RefreshSession)
export class RefreshSessionHandler implements ICommandHandler<RefreshSession> {
  constructor(private readonly families: RefreshFamilies) {}

  /** @throws Problem refresh_unknown, refresh_reused, refresh_revoked, chain_not_configured, chain_unavailable */
  execute({ input: { refreshToken, correlationId } }: RefreshSession): Promise<TokensDto> {
    return this.families.rotate(refreshToken, correlationId);
  }
}

export class EndOwnSessions extends CommandWith<Signed, { wallet: string; position: Position }> {}

@CommandHandler(EndOwnSessions)
export class EndOwnSessionsHandler implements ICommandHandler<EndOwnSessions> {
  constructor(
    private readonly challenges: Challenges,
    private readonly signatures: Signatures,
    private readonly links: WalletLinks,
  ) {}

  /** @throws Problem siwe_*, nonce_used, chain_not_configured, chain_unavailable */
  async execute({ input: { signed, correlationId } }: EndOwnSessions) {
    const challenge = await this.challenges.find(signed.message, ['end_sessions']);
    const chain_id = await this.signatures.judge(challenge, signed.signature);
    const wallet = challenge.address;
    const context = jobContext(`wallet:${wallet.toLowerCase()}`, correlationId, bodyHash(signed));
    const command = new EndSessions({ wallet, by: { reason: 'signed', chain_id }, context });
    return { wallet, position: await this.links.execute(command) };
  }
}
