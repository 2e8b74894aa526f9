import { createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { CommandWith } from '../../commands/messages.js';
import { SigningKeys } from '../../credentials/signing-keys.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { Json } from '../../kernel/json.js';
import { PublicAddress } from '../../kernel/public-address.js';
import { FOREVER_MS, KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { Problem } from '../../kernel/problems.js';
import {
  type Challenge,
  LIFETIME_MS,
  NONCE_LENGTH,
  type Purpose,
  type ChallengeRequest,
  challengeIn,
  compose,
  expired,
  faultOf,
  nonceOf,
  nonceUsed,
} from './siwe.js';
import type { ChallengeDto } from './sessions.dto.js';

/** That a nonce was used is kept a little longer than its message is valid, for clocks that are set back. */
const KEPT_MS = LIFETIME_MS + 5 * 60_000;

/** The key of a random text, on which all nonces depend. A store that is lost with the used nonces gets another one. */
const STORE_TEXT = '{siwe}-store';

/** Hex digits of the parts of a nonce: a random seed, three tags, and the MAC of the whole message. */
const SEED = 16;
const TAG = 8;
const MAC = NONCE_LENGTH - SEED - 3 * TAG;

/** Issues a message for a wallet to sign. */
export class StartSignIn extends CommandWith<ChallengeRequest, ChallengeDto> {}

/**
 * Messages issued for wallets to sign. Each can be used once. Nothing is stored until one is used: the nonce holds a MAC
 * of its message, by a key that all processes share. The key changes when the store has lost which nonces were used. The
 * tags only serve to say what is wrong with a changed message: they are MACs of the seed, and of the seed with the address
 * and with the chain.
 */
@CommandHandler(StartSignIn)
export class Challenges implements ICommandHandler<StartSignIn> {
  constructor(
    private readonly address: PublicAddress,
    private readonly keys: SigningKeys,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  async execute({ input }: StartSignIn): Promise<ChallengeDto> {
    const { nonce, message, expires_at } = await this.give(input);
    return { nonce, message, expires_at: new Date(expires_at).toISOString() };
  }

  async give(request: ChallengeRequest): Promise<Challenge> {
    const now = this.clock();
    const key = await this.key();
    const seed = randomBytes(SEED / 2).toString('hex');
    const tags = [tag(key, seed), tag(key, seed, request.address), tag(key, seed, request.chain_id)].join('');
    const draft = await compose(request, this.address.url, seed + tags, now);
    const nonce = seed + tags + this.macOf(key, draft);
    const message = draft.replace(`Nonce: ${seed}${tags}`, `Nonce: ${nonce}`);
    return { ...request, nonce, message, expires_at: now + LIFETIME_MS };
  }

  /**
   * The challenge that this message was issued for. A message that is identical to the issued one needs no parsing.
   * @throws Problem siwe_* and nonce_used, depending on what is wrong with it
   */
  async find(message: string, purposes: readonly Purpose[]): Promise<Challenge> {
    const now = this.clock();
    const nonce = nonceOf(message);
    const key = await this.key();
    if (nonce === undefined || !this.isIssued(key, message, nonce)) {
      const issued = nonce === undefined ? undefined : await this.issued(key, nonce);
      throw await faultOf(message, issued, this.address.url, now);
    }
    const challenge = challengeIn(message, nonce);
    if (challenge.expires_at <= now) throw expired();
    if (await this.isUsed(nonce)) throw nonceUsed();
    if (!purposes.includes(challenge.purpose)) {
      const detail = `The message was issued for the purpose ${challenge.purpose}, not ${purposes.join(' or ')}.`;
      throw new Problem('siwe_purpose', detail);
    }
    return challenge;
  }

  /**
   * Marks a challenge as used. Of several concurrent callers exactly one succeeds.
   * @returns makes it usable again: to be called if its signature could not be verified
   * @throws Problem nonce_used
   */
  async use({ nonce, expires_at }: Challenge): Promise<() => Promise<void>> {
    const key = keyOf(nonce);
    const mine = randomUUID();
    const keptMs = expires_at - LIFETIME_MS + KEPT_MS - this.clock();
    if (!(await this.keyValue.putIfAbsent(key, mine, keptMs))) throw nonceUsed();
    // A store may carry out a call twice if its answer is lost. By then the challenge may have been used again.
    return async () => void (await this.keyValue.replace(key, mine, null, 0));
  }

  private async isUsed(nonce: string): Promise<boolean> {
    return (await this.keyValue.get(keyOf(nonce))) !== undefined;
  }

  private isIssued(key: string, message: string, nonce: string): boolean {
    const mac = nonce.slice(-MAC);
    return isEqual(mac, this.macOf(key, message.replace(`Nonce: ${nonce}`, `Nonce: ${nonce.slice(0, -MAC)}`)));
  }

  /** What is known of a nonce whose message was changed; undefined if it was not issued here. */
  private async issued(key: string, nonce: string) {
    const seed = nonce.slice(0, SEED);
    const tagOf = (n: number) => nonce.slice(SEED + n * TAG, SEED + (n + 1) * TAG);
    if (!isEqual(tagOf(0), tag(key, seed))) return undefined;
    return {
      used: await this.isUsed(nonce),
      isFor: (address: string) => isEqual(tagOf(1), tag(key, seed, address)),
      isOn: (chainId: number) => isEqual(tagOf(2), tag(key, seed, chainId)),
    };
  }

  /** The service's address is part of it: another deployment may have the same keys. */
  private macOf(key: string, draft: string): string {
    return hmac(key, ['message', this.address.url, draft]).slice(0, MAC);
  }

  private async key(): Promise<string> {
    for (;;) {
      const text = await this.keyValue.get(STORE_TEXT);
      if (text !== undefined) return hmac(this.keys.secret('siwe'), text);
      await this.keyValue.putIfAbsent(STORE_TEXT, randomUUID(), FOREVER_MS);
    }
  }
}

const tag = (key: string, ...parts: (string | number)[]): string => hmac(key, ['tag', ...parts]).slice(0, TAG);

const hmac = (key: string | Uint8Array, content: Json): string =>
  createHmac('sha256', key).update(JSON.stringify(content)).digest('hex');

/** Texts of the same length. */
const isEqual = (a: string, b: string): boolean => timingSafeEqual(Buffer.from(a), Buffer.from(b));

const keyOf = (nonce: string): string => `{siwe}:${nonce}`;
