import { Inject, Injectable } from '@nestjs/common';
import { Consumers } from '../../read-side/consumers.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { refreshFamilyRevoked } from './domain/sessions.events.js';
import { sessionsEnded, walletUnlinked } from './domain/wallets.events.js';

const ENDINGS = new Set<string>([refreshFamilyRevoked.type, sessionsEnded.type, walletUnlinked.type]);

/** Knows from the log of sessions that end, whichever process ends them. */
@Injectable()
export class SessionEnds {
  constructor(
    private readonly consumers: Consumers,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /**
   * Calls `ended` with the address (in lower case) of each wallet of which a session may have ended.
   * @returns once what is recorded from then on will be noticed
   */
  async watch(ended: (wallet: string) => void, signal: AbortSignal): Promise<void> {
    const consumer = { id: 'ends of sessions', position: await this.store.head() };
    const take = () =>
      this.consumers.hand([consumer], async ({ events }) => {
        for (const event of events) if (ENDINGS.has(event.type)) ended(event.data['wallet'] as string);
        consumer.position = events.at(-1)!.position;
      });
    void this.consumers.follow(consumer.id, take, signal);
  }
}
