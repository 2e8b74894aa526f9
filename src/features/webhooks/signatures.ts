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
    return `whsec_${Buffer.from(this.keyOf(webhook_id, rotation)).toString('base64')}`;
  }

  /** The headers of one attempt. For a day after a rotation there are two signatures, by the new secret and the old one. */
  headersOf({ webhook_id, rotation, rotated_at }: Secret, messageId: string, body: string): Record<string, string> {
    const now = this.clock();
    const timestamp = String(Math.floor(now / 1000));
    const rotations = rotated_at !== null && now - rotated_at < OVERLAP_MS ? [rotation, rotation - 1] : [rotation];
    const signatures = rotations.map((each) => {
      const mac = createHmac('sha256', this.keyOf(webhook_id, each)).update(`${messageId}.${timestamp}.${body}`);
      return `v1,${mac.digest('base64')}`;
    });
    return {
      'content-type': 'application/json',
      'user-agent': 'Credence-Webhooks',
      'webhook-id': messageId,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatures.join(' '),
    };
  }

  /** RFC 5869, 256 bits. */
  private keyOf(webhookId: string, rotation: number): Uint8Array {
    return new Uint8Array(hkdfSync('sha256', this.keys.secret('webhooks'), '', `${webhookId} ${rotation}`, 32));
  }
}
