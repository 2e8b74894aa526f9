import { type AllStreamSubscription, EVENT_TYPE, START } from '@eventstore/db-client';
import type { Position } from '../../kernel/event.js';
import { connectionReplaced } from './pulse.js';
import type { Link } from './link.js';

/** Records that the server searches at once, and reports after. */
const WINDOW = 1_000;
/**
 * A server that does not say that it has reached the end is taken to have done so when it is silent for this long, ms.
 * The marks end early if it was only slow.
 */
const SILENCE_MS = 1_000;

/**
 * Positions of records of the log, `every` records apart, after a position. The server finds them by a subscription with
 * a filter that matches no event, without sending events: this takes a thirtieth of the time of reading.
 * @throws NoAnswer when the connection is lost, or what the client reports
 */
export async function marksOf({ client, gone }: Link, after: Position, every: number): Promise<Position[]> {
  const marks: Position[] = [];
  let subscription: AllStreamSubscription | undefined;
  let silence: NodeJS.Timeout | undefined;
  let lose = (): void => undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      const wait = () => {
        clearTimeout(silence);
        silence = setTimeout(resolve, SILENCE_MS);
      };
      lose = () => reject(connectionReplaced());
      gone.addEventListener('abort', lose);
      if (gone.aborted) lose();
      subscription = client.subscribeToAll({
        fromPosition: after === 0 ? START : { commit: BigInt(after), prepare: BigInt(after) },
        filter: {
          filterOn: EVENT_TYPE,
          regex: '^$',
          maxSearchWindow: Math.min(WINDOW, every),
          checkpointInterval: Math.max(1, Math.round(every / WINDOW)),
          checkpointReached: async (_, { commit }) => {
            wait();
            if (Number(commit) > after) marks.push(Number(commit));
          },
        },
      });
      subscription.on('confirmation', wait);
      subscription.on('caughtUp', resolve);
      subscription.on('error', reject);
      subscription.on('data', () => undefined);
    });
    return marks;
  } finally {
    clearTimeout(silence);
    gone.removeEventListener('abort', lose);
    void subscription?.unsubscribe().catch(() => undefined);
  }
}
