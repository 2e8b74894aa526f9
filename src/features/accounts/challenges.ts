import { randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { PublicAddress } from '../../kernel/public-address.js';
import type { Json } from '../../kernel/json.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { Problem } from '../../kernel/problems.js';
import {
  type Challenge,
  LIFETIME_MS,
  type Purpose,
  type ChallengeRequest,
  compose,
  expired,
  faultOf,
  nonceOf,
  nonceUsed,
} from './siwe.js';

/** Kept a little longer than it can be used, so that a late message is refused as expired or used, not as unknown. */
const KEPT_MS = LIFETIME_MS + 5 * 60_000;

/** Messages issued for wallets to sign. Each can be used once. */
@Injectable()
export class Challenges {
  constructor(
    private readonly address: PublicAddress,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  async give(request: ChallengeRequest): Promise<{ nonce: string; challenge: Challenge }> {
    const now = this.clock();
    const nonce = randomBytes(16).toString('hex');
    const message = await compose(request, this.address.url, nonce, now);
    const challenge = { ...request, message, expires_at: now + LIFETIME_MS, used: false };
    await this.keyValue.put(keyOf(nonce), { ...challenge }, KEPT_MS);
    return { nonce, challenge };
  }

  /**
   * The challenge that this message was issued for. A message that is identical to the issued one needs no parsing.
   * @throws Problem siwe_* and nonce_used, depending on what is wrong with it
   */
  async find(message: string, purposes: readonly Purpose[]): Promise<Challenge> {
    const now = this.clock();
    const nonce = nonceOf(message);
    const given = nonce === undefined ? undefined : await this.keyValue.get(keyOf(nonce));
    const challenge = given as Challenge | undefined;
    if (challenge?.message !== message) throw await faultOf(message, challenge, this.address.url, now);
    if (challenge.expires_at <= now) throw expired();
    if (challenge.used) throw nonceUsed();
    if (!purposes.includes(challenge.purpose)) {
      const detail = `The message was issued for the purpose ${challenge.purpose}, not ${purposes.join(' or ')}.`;
      throw new Problem('siwe_purpose', detail);
    }
    return challenge;
  }

  /** Marks a challenge as used. Of several concurrent callers exactly one succeeds. @throws Problem nonce_used */
  async use(challenge: Challenge): Promise<void> {
    if (!(await this.replace(challenge, { ...challenge, used: true }))) throw nonceUsed();
  }

  /** Makes a challenge usable again whose signature could not be verified. */
  async giveBack(challenge: Challenge): Promise<void> {
    await this.replace({ ...challenge, used: true }, challenge);
  }

  private replace(before: Challenge, after: Challenge): Promise<boolean> {
    const key = keyOf(nonceOf(before.message)!);
    const keptMs = before.expires_at - LIFETIME_MS + KEPT_MS - this.clock();
    return this.keyValue.replace(key, { ...before } as Json, { ...after } as Json, keptMs);
  }
}

const keyOf = (nonce: string): string => `siwe:${nonce}`;
