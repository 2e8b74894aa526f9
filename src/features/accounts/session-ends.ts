import { Inject, Injectable } from '@nestjs/common';
import type { RecordedEvent } from '../../kernel/event.js';
import { backoff } from '../../kernel/backoff.js';
import { Logger } from '../../kernel/logger.js';
import { pause } from '../../kernel/turn.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { refreshFamilyRevoked } from './domain/sessions.events.js';
import { sessionsEnded, walletUnlinked } from './domain/wallets.events.js';

/** Failures that follow each other within this time are logged once, ms. */
const TELL_AGAIN_MS = 60_000;
const ENDINGS = new Set<string>([refreshFamilyRevoked.type, sessionsEnded.type, walletUnlinked.type]);

/** Follows the log, and so knows of sessions that end, whichever process ends them. */
@Injectable()
export class SessionEnds {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly logger: Logger,
  ) {}

  /**
   * Calls `ended` with the address (in lower case) of each wallet of which a session may have ended.
   * @returns once it follows the log: what is recorded from then on is noticed
   */
  async watch(ended: (wallet: string) => void, signal: AbortSignal): Promise<void> {
    void this.follow(await this.store.head(), ended, signal);
  }

  private async follow(position: number, ended: (wallet: string) => void, signal: AbortSignal): Promise<void> {
    let failedAt = -Infinity;
    let failures = 0;
    while (!signal.aborted) {
      try {
        for await (const slice of this.store.subscribe(position, { signal })) {
          for (const event of slice) if (ENDINGS.has(event.type)) ended(walletOf(event));
          position = slice.at(-1)!.position;
          failedAt = -Infinity;
          failures = 0;
        }
      } catch (error) {
        const now = performance.now();
        const isNews = !signal.aborted && now - failedAt > TELL_AGAIN_MS;
        failedAt = now;
        // What ended meanwhile is noticed afterwards, since the log is read on from the same position.
        if (isNews) this.logger.warn('ends of sessions are noticed later: the log cannot be read', { error });
      }
      await pause(backoff(++failures), signal);
    }
  }
}

const walletOf = ({ data }: RecordedEvent): string => data['wallet'] as string;
