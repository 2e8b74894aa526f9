import { Inject, Injectable } from '@nestjs/common';
import type { RecordedEvent } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type Fact, fact } from '../../commands/writer.js';
import { decodeStream, type EventOf } from '../../../projections/events.js';
import { Problem } from '../../kernel/problems.js';
import { issuerRegistered, issuerRetired } from './trove.events.js';

export type IssuerContent = EventOf<'IssuerRegistered'>['data'];
export interface Issuer extends IssuerContent {
  retired: boolean;
}

export function issuerStream(issuerId: string): string {
  return `issuer-${issuerId}`;
}

/** Folds an `issuer-<id>` stream. @throws Problem history_unreadable */
export function issuerOf(history: readonly RecordedEvent[]): Issuer | undefined {
  let issuer: Issuer | undefined;
  for (const event of decodeStream(history)) {
    if (event.type === 'IssuerRegistered') issuer = { ...event.data, retired: false };
    if (event.type === 'IssuerRetired' && issuer) issuer = { ...issuer, retired: true };
  }
  return issuer;
}

/** An issuer never changes: a new key is a new issuer. @throws Problem issuer_conflict */
export function decideRegister(issuer: Issuer | undefined, content: IssuerContent): Fact[] {
  if (!issuer) return [fact(issuerRegistered, { ...content })];
  const same = (['platform_id', 'ed25519', 'address'] as const).every((field) => issuer[field] === content[field]);
  if (same) return [];
  throw new Problem('issuer_conflict', `${content.issuer_id} exists with another key or platform.`, {
    errors: [{ pointer: '/issuer_id', code: 'issuer_conflict', message: 'exists with another key or platform' }],
  });
}

/** Its proofs are believed no more; what was approved stays. */
export function decideRetire(issuer: Issuer): Fact[] {
  return issuer.retired ? [] : [fact(issuerRetired, { issuer_id: issuer.issuer_id })];
}

/** Whose proofs are believed, from each issuer's own stream, so never behind. */
@Injectable()
export class Issuers {
  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  async find(issuerId: string): Promise<Issuer | undefined> {
    return issuerOf(await this.store.readStream(issuerStream(issuerId)));
  }

  /** @throws Problem issuer_not_found */
  async get(issuerId: string): Promise<Issuer> {
    const issuer = await this.find(issuerId);
    if (!issuer) throw new Problem('issuer_not_found', `There is no issuer ${issuerId}.`);
    return issuer;
  }
}
