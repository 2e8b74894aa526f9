import { createHash, createHmac, randomBytes } from 'node:crypto';
import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { ACCESS_TOKEN_S, AccessTokens } from '../../credentials/access-tokens.js';
import type { Session } from '../../credentials/caller.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { Position } from '../../kernel/event.js';
import { fact } from '../../kernel/event-definition.js';
import { jobContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { Problem } from '../../kernel/problems.js';
import { PublicAddress } from '../../kernel/public-address.js';
import { type SignedMessage, Signatures } from './signatures.js';
import { WalletLinks } from './wallet-links.js';
import { refreshFamilyRevoked } from './domain/sessions.events.js';
import type { TokensDto } from './sessions.dto.js';

/** How long a session lasts at most, ms, however often it is refreshed. */
const FAMILY_MS = 30 * 86_400_000;
/** How long the previous token is still accepted: the client may have lost the first answer. */
const GRACE_MS = 15_000;
const HANDLE_BYTES = 16;
const SECRET_BYTES = 32;
const TOKEN = /^[A-Za-z0-9_-]{64}$/;

/**
 * A family of refresh tokens, of which one is valid at a time. The tokens themselves are not stored. A type, not an
 * interface: it is stored as JSON.
 */
type Family = {
  /** EIP-55. Stored with its checksum: computing it costs as much as the rest of a refresh, signing excluded. */
  wallet: string;
  chain_id: number | null;
  /** ms since the epoch. */
  expires_at: number;
  /** SHA-256 of the valid secret, hex. */
  current: string;
  /** SHA-256 of the previous secret; null for the first. */
  previous: string | null;
  /** Derives the current secret from the previous one, so that a repeated refresh gets the same answer. */
  seed: string | null;
  rotated_at: number;
  /** Of a contract wallet: what it accepted at the sign-in, to ask again. */
  signed?: SignedMessage;
  /** How often the wallet's sessions had been ended when this one began. */
  endings: number;
};

/** Ends the session of a refresh token, whether the token is current or replaced. Does nothing for an unknown token. */
export class RevokeSession extends CommandWith<{ refreshToken: string; correlationId: string }, Position | null> {}

/**
 * Refresh tokens: a handle that identifies the family, and a secret of 256 bits that is replaced with every use. A
 * replaced secret gets the same successor again within the grace period. Later it revokes the family, since two parties
 * may hold its tokens. A revocation is an event, so that losing or restoring the short-lived state cannot undo it.
 */
@CommandHandler(RevokeSession)
export class RefreshFamilies implements ICommandHandler<RevokeSession> {
  constructor(
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    private readonly writer: Writer,
    private readonly links: WalletLinks,
    private readonly signatures: Signatures,
    private readonly tokens: AccessTokens,
    private readonly address: PublicAddress,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** @param signed what the wallet signed; kept for a contract wallet */
  async begin(wallet: string, chainId: number | null, signed: SignedMessage): Promise<TokensDto> {
    const token = randomBytes(HANDLE_BYTES + SECRET_BYTES);
    const { id, secret } = partsOf(token);
    const now = this.clock();
    const { trisId, endings } = await this.links.standing(wallet, chainId);
    const family: Family = {
      wallet,
      chain_id: chainId,
      expires_at: now + FAMILY_MS,
      current: digest(secret),
      previous: null,
      seed: null,
      rotated_at: now,
      endings,
      ...(chainId !== null && { signed }),
    };
    // First what may fail: a family that is stored without its tokens could never be used.
    const tokens = await this.tokensOf(id, family, trisId, token);
    await this.keyValue.put(keyOf(id), family, FAMILY_MS);
    return tokens;
  }

  private async tokensOf(
    family: string,
    { wallet, chain_id: chainId }: Family,
    trisId: string | null,
    token: Buffer,
  ): Promise<TokensDto> {
    const session = { family, wallet: wallet.toLowerCase(), chainId, trisId };
    return {
      access_token: await this.tokens.sign(session, this.address.url),
      token_type: 'Bearer',
      expires_in: ACCESS_TOKEN_S,
      refresh_token: token.toString('base64url'),
      tris_id: trisId,
      wallet,
    };
  }

  /**
   * Replaces a token by its successor, in one conditional write, if a contract wallet still accepts its sign-in.
   * @throws Problem refresh_unknown, refresh_revoked; refresh_reused, which also revokes the family; chain_not_configured
   * or chain_unavailable, after which the token may be sent again
   */
  async rotate(token: string, correlationId: string): Promise<TokensDto> {
    const { id, handle, secret } = read(token);
    const presented = digest(secret);
    for (;;) {
      const found = await this.stateOf(id);
      if (!found) throw unknown();
      const { stored, hasEnded } = found;
      if (hasEnded) throw new Problem('refresh_revoked', 'The session has ended. Sign in again.');
      const now = this.clock();
      const answer = async (seed: string) => {
        const { wallet, chain_id } = stored;
        // The link of a contract wallet may have changed while its chain was asked.
        const { trisId } = chain_id === null ? found : await this.links.standing(wallet, chain_id);
        return this.tokensOf(id, stored, trisId, Buffer.concat([handle, successor(secret, seed)]));
      };
      // A rotation that lies ahead is from before the clock was set back.
      const isRepeated = presented === stored.previous && Math.abs(now - stored.rotated_at) <= GRACE_MS;
      if (presented === stored.current || isRepeated) await this.refuseUnlessAccepted(id, stored, correlationId);
      if (presented === stored.current) {
        const seed = randomBytes(SECRET_BYTES).toString('base64url');
        const next = { current: digest(successor(secret, seed)), previous: presented, seed, rotated_at: this.clock() };
        const replaced = { ...stored, ...next };
        const ttl = stored.expires_at - now;
        if (await this.keyValue.replace(keyOf(id), stored, replaced, ttl)) return answer(seed);
        continue; // another request with the same token was first: read the family again
      }
      if (isRepeated) return answer(stored.seed!);
      await this.end(id, stored.wallet, 'reused', correlationId);
      const detail = 'A refresh token can be used once. This one was used before, so its session has been ended.';
      throw new Problem('refresh_reused', detail);
    }
  }

  /** A contract may have changed its owners since the sign-in. The key of an address cannot change. */
  private async refuseUnlessAccepted(
    id: string,
    { wallet, chain_id, signed }: Family,
    correlationId: string,
  ): Promise<void> {
    if (chain_id === null) return;
    if (signed && (await this.signatures.stillAccepts(chain_id, wallet, signed))) return;
    await this.end(id, wallet, 'rejected', correlationId);
    throw new Problem('refresh_revoked', 'The contract wallet no longer accepts this sign-in. Sign in again.');
  }

  async execute({ input: { refreshToken, correlationId } }: RevokeSession): Promise<Position | null> {
    if (!TOKEN.test(refreshToken)) return null;
    const { id } = read(refreshToken);
    const family = await this.find(id);
    return family ? this.end(id, family.wallet, 'signed_out', correlationId) : null;
  }

  /**
   * What a session may act for now, according to the log. An access token only says what held when it was issued.
   * @returns the session, with the TRIS it may act for now, or null
   * @throws Problem session_revoked
   */
  async standingOf(session: Session): Promise<Session> {
    const found = await this.stateOf(session.family);
    if (!found || found.hasEnded || found.stored.wallet.toLowerCase() !== session.wallet) {
      throw new Problem('session_revoked', 'The session has ended. Sign in again.');
    }
    return { ...session, trisId: found.trisId };
  }

  /** A family with what the log says of it: whether it has ended, also with all of the wallet's sessions. */
  private async stateOf(id: string) {
    const [stored, revoked] = await Promise.all([this.find(id), this.writer.firstOf(familyStream(id))]);
    if (!stored) return undefined;
    if (revoked) return { stored, trisId: null, hasEnded: true };
    const { trisId, endings } = await this.links.standing(stored.wallet, stored.chain_id);
    return { stored, trisId, hasEnded: endings !== stored.endings };
  }

  private async find(id: string): Promise<Family | undefined> {
    const family = (await this.keyValue.get(keyOf(id))) as Family | undefined;
    return family && family.expires_at > this.clock() ? family : undefined;
  }

  private async end(
    id: string,
    wallet: string,
    reason: 'signed_out' | 'reused' | 'rejected',
    correlationId: string,
  ): Promise<Position> {
    const address = wallet.toLowerCase();
    const ended = fact(refreshFamilyRevoked, { family_id: id, wallet: address, reason });
    const context = jobContext(`session:${address}`, correlationId, id);
    return (await this.writer.create(familyStream(id), [ended], context)).position;
  }
}

/** @throws Problem refresh_unknown if it does not have the form of a token */
function read(token: string) {
  if (!TOKEN.test(token)) throw unknown();
  return partsOf(Buffer.from(token, 'base64url'));
}

/** The handle is known to holders of the family's tokens only; its digest is the family's public id. */
function partsOf(token: Buffer) {
  const handle = token.subarray(0, HANDLE_BYTES);
  return { id: digest(handle), handle, secret: token.subarray(HANDLE_BYTES) };
}

const successor = (secret: Buffer, seed: string): Buffer => createHmac('sha256', seed).update(secret).digest();
const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const keyOf = (id: string): string => `family:${id}`;
const familyStream = (id: string): string => `family-${id}`;

const unknown = (): Problem =>
  new Problem('refresh_unknown', 'The refresh token is unknown, or its session has expired. Sign in again.');
