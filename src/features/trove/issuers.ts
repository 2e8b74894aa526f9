import { Inject, Injectable } from '@nestjs/common';
import { Problem } from '../../kernel/problems.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type Issuer, issuerOf, issuerStream } from './domain/issuer.js';

/** Issuers whose proofs are trusted, each read from its own stream, so always current. */
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
