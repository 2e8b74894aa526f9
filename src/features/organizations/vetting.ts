import { Inject, Injectable } from '@nestjs/common';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { organizationOf, organizationStream } from './domain/organization.js';

/** How long this process goes by what it has read, ms. A revocation takes effect within this time. */
const KNOWN_MS = 1_000;

/** Whether organizations are vetted, read from their own streams, each at most once a second. */
@Injectable()
export class Vetting {
  private readonly known = new Map<string, { read: number; isVetted: Promise<boolean> }>();

  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /**
   * Whether the operators stand behind what a caller states: they state it themselves, or have vetted the organization.
   * @param organization the one that the caller's key is bound to; null for an operator's key
   */
  async vouchesFor(organization: string | null): Promise<boolean> {
    if (organization === null) return true;
    const now = performance.now();
    const known = this.known.get(organization);
    if (known && now - known.read < KNOWN_MS) return known.isVetted;
    const isVetted = this.store.readStream(organizationStream(organization)).then((h) => organizationOf(h).vetted);
    const entry = { read: now, isVetted };
    this.known.set(organization, entry);
    isVetted.catch(() => this.known.get(organization) === entry && this.known.delete(organization));
    return isVetted;
  }
}
