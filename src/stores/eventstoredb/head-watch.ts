import { END, EVENT_TYPE } from '@eventstore/db-client';
import type { Connection } from './connection.js';
import { breaksConnection } from './connection.js';

/** How often the log is polled without a notification, ms: normally, and while there is no subscription. */
const LOOK_MS = 250;
const LOOK_BLIND_MS = 50;

/**
 * Notifies readers at the head that the log has grown. It subscribes to the whole log with a filter that matches no
 * event, so the server sends positions and no events. A position is only a reason to read, never one to continue from,
 * since it runs ahead of what was read. Late, duplicate or lost notifications and dropped subscriptions ("Consumer too
 * slow") do no harm: readers also poll, and continue from what they have read.
 */
export class HeadWatch {
  /** Changes whenever there may be something new. */
  version = 0;
  private subscribed = false;
  private readers = 0;
  private end = new AbortController();
  private readonly waiting = new Set<() => void>();

  constructor(private readonly connection: Connection) {}

  /** The subscription is kept open while at least one reader follows. */
  addReader(): void {
    if (this.readers++ > 0) return;
    this.end = new AbortController();
    void this.keepSubscribed(this.end.signal);
  }

  removeReader(): void {
    if (--this.readers === 0) this.end.abort();
  }

  /** Resolves when there may be events that were not there when the version was read, or on abort. */
  async waitForChange(version: number, signal: AbortSignal): Promise<void> {
    if (this.version !== version || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.waiting.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, this.subscribed ? LOOK_MS : LOOK_BLIND_MS);
      this.waiting.add(done);
      signal.addEventListener('abort', done);
    });
  }

  private grown(): void {
    this.version++;
    for (const done of this.waiting) done();
  }

  private async keepSubscribed(end: AbortSignal): Promise<void> {
    for (let attempt = 0; !end.aborted && !this.connection.closed; attempt++) {
      const { link } = this.connection;
      const subscription = link.client.subscribeToAll({
        fromPosition: END,
        filter: {
          filterOn: EVENT_TYPE,
          regex: '^$',
          maxSearchWindow: 1,
          checkpointInterval: 1,
          checkpointReached: async () => this.grown(),
        },
      });
      let stop = (): void => undefined;
      const failure = await new Promise<unknown>((resolve) => {
        stop = () => resolve(undefined);
        // Read now, to find what was appended before the subscription began.
        subscription.on('confirmation', () => {
          attempt = 0;
          this.subscribed = true;
          this.grown();
        });
        subscription.on('error', resolve);
        subscription.on('end', stop);
        subscription.on('data', () => undefined);
        link.gone.addEventListener('abort', stop);
        end.addEventListener('abort', stop);
        if (link.gone.aborted || end.aborted) stop();
      });
      this.subscribed = false;
      link.gone.removeEventListener('abort', stop);
      end.removeEventListener('abort', stop);
      void subscription.unsubscribe().catch(() => undefined);
      if (failure !== undefined && breaksConnection(failure)) this.connection.renew(link);
      await this.connection.pause(attempt, end);
    }
  }
}
