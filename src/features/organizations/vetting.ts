import { Inject, Injectable } from '@nestjs/common';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { organizationOf, organizationStream } from './domain/organization.js';

/** How long this process goes by what it has read, ms. A revocation takes effect within this time. */
const KNOWN_MS = 1_000;

/** Of a statement: whether operators stand behind who makes it. */
type Source = 'vouched' | 'unvouched';

/** Whether organizations are vetted, read from their own streams, each at most once a second. */
@Injectable()
export class Vetting {
  private readonly known = new Map<string, { read: number; source: Promise<Source> }>();

  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /**
   * The source of what a caller states: vouched if it is an operator, or of an organization that operators have vetted.
   * @param organization the one that the caller's key is bound to; null for an operator's key
   */
  async sourceFor(organization: string | null): Promise<Source> {
    if (organization === null) return 'vouched';
    const now = performance.now();
    const known = this.known.get(organization);
    if (known && now - known.read < KNOWN_MS) return known.source;
    const entry = { read: now, source: this.read(organization) };
    this.known.set(organization, entry);
    entry.source.catch(() => this.known.get(organization) === entry && this.known.delete(organization));
    return entry.source;
  }

  private async read(organization: string): Promise<Source> {
    const history = await this.store.readStream(organizationStream(organization));
    return organizationOf(history).vetted ? 'vouched' : 'unvouched';
  }
}
