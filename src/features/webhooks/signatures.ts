import { createHmac, hkdfSync } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { SigningKeys } from '../../credentials/signing-keys.js';
import { OVERLAP_MS, type Webhook } from './domain/webhook.js';

type Secret = Pick<Webhook, 'webhook_id' | 'rotation' | 'rotated_at'>;

/**
 * Signs messages as the Standard Webhooks specification says (https://www.standardwebhooks.com). The secrets follow
 * from a key of the service, so that they are stored nowhere.
 */
@Injectable()
export class Signatures {
  constructor(
    private readonly keys: SigningKeys,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** The present secret, as its owner gets it: `whsec_` and base64. */
  secretOf({ webhook_id, rotation }: Secret): string {
    return `whsec_${Buffer.from(keyOf(this.keys.secret('webhooks'), webhook_id, rotation)).toString('base64')}`;
  }

  /** When the secret changed last, ms: by a rotation of its own, or by that of the key from which all follow; null: never. */
  changedAt({ rotated_at, created_at }: Pick<Webhook, 'rotated_at' | 'created_at'>): number | null {
    const endedAt = this.keys.formerSecret('webhooks')?.endedAt ?? 0;
    return Math.max(rotated_at ?? 0, endedAt > created_at ? endedAt : 0) || null;
  }

  /**
   * The headers of one attempt. For a day after a rotation there are signatures by the new secret and the old one, also
   * after a change of the key from which they follow, unless it was stolen.
   */
  headersOf({ webhook_id, rotation, rotated_at }: Secret, messageId: string, body: string): Record<string, string> {
    const now = this.clock();
    const timestamp = String(Math.floor(now / 1000));
    const rotations = rotated_at !== null && now - rotated_at < OVERLAP_MS ? [rotation, rotation - 1] : [rotation];
    const former = this.keys.formerSecret('webhooks');
    const secrets = [this.keys.secret('webhooks')];
    if (former?.secret && now - former.endedAt < OVERLAP_MS) secrets.push(former.secret);
    const keys = secrets.flatMap((secret) => rotations.map((each) => keyOf(secret, webhook_id, each)));
    const signed = `${messageId}.${timestamp}.${body}`;
    const signatures = keys.map((key) => `v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
    return {
      'content-type': 'application/json',
      'user-agent': 'Credence-Webhooks',
      'webhook-id': messageId,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatures.join(' '),
    };
  }
}

/** RFC 5869, 256 bits. */
const keyOf = (secret: Uint8Array, webhookId: string, rotation: number): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', secret, '', `${webhookId} ${rotation}`, 32));
