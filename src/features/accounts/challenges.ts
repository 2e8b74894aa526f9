import { createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { SigningKeys } from '../../credentials/signing-keys.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { PublicAddress } from '../../kernel/public-address.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
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

/** That a nonce was used is kept a little longer than its message is valid, for clocks that are set back. */
const KEPT_MS = LIFETIME_MS + 5 * 60_000;

/** Hex digits of the parts of a nonce: a random seed, three tags, and the MAC of the whole message. */
const SEED = 16;
const TAG = 8;
const MAC = NONCE_LENGTH - SEED - 3 * TAG;

/**
 * Messages issued for wallets to sign. Each can be used once. Nothing is stored until one is used: the nonce holds a MAC
 * of its message, by a key that all processes share. The tags only serve to say what is wrong with a changed message:
 * they are MACs of the seed, and of the seed with the address and with the chain.
 */
@Injectable()
export class Challenges {
  constructor(
    private readonly address: PublicAddress,
    private readonly keys: SigningKeys,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  async give(request: ChallengeRequest): Promise<Challenge> {
    const now = this.clock();
    const seed = randomBytes(SEED / 2).toString('hex');
    const tags = [this.tag(seed), this.tag(seed, request.address), this.tag(seed, request.chain_id)].join('');
    const draft = await compose(request, this.address.url, seed + tags, now);
    const nonce = seed + tags + this.macOf(draft);
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
    if (nonce === undefined || !this.isIssued(message, nonce)) {
      throw await faultOf(message, nonce === undefined ? undefined : await this.issued(nonce), this.address.url, now);
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

  private isIssued(message: string, nonce: string): boolean {
    const mac = nonce.slice(-MAC);
    return isEqual(mac, this.macOf(message.replace(`Nonce: ${nonce}`, `Nonce: ${nonce.slice(0, -MAC)}`)));
  }

  /** What is known of a nonce whose message was changed; undefined if it was not issued here. */
  private async issued(nonce: string) {
    const seed = nonce.slice(0, SEED);
    const tag = (n: number) => nonce.slice(SEED + n * TAG, SEED + (n + 1) * TAG);
    if (!isEqual(tag(0), this.tag(seed))) return undefined;
    return {
      used: await this.isUsed(nonce),
      isFor: (address: string) => isEqual(tag(1), this.tag(seed, address)),
      isOn: (chainId: number) => isEqual(tag(2), this.tag(seed, chainId)),
    };
  }

  private tag(...parts: (string | number)[]): string {
    return this.hmac(['tag', ...parts]).slice(0, TAG);
  }

  /** The service's address is part of it: another deployment may have the same keys. */
  private macOf(draft: string): string {
    return this.hmac(['message', this.address.url, draft]).slice(0, MAC);
  }

  private hmac(parts: (string | number)[]): string {
    return createHmac('sha256', this.keys.secret('siwe')).update(JSON.stringify(parts)).digest('hex');
  }
}

/** Texts of the same length. */
const isEqual = (a: string, b: string): boolean => timingSafeEqual(Buffer.from(a), Buffer.from(b));

const keyOf = (nonce: string): string => `siwe:${nonce}`;
