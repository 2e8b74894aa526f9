import { beginOrigin } from '../features/checkpoints/begin-origin.js';
import { CHECKPOINTS_STREAM } from '../features/checkpoints/domain/checkpoints.js';
import { logOriginBegun } from '../features/checkpoints/domain/checkpoints.events.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { RecordedEvent } from '../kernel/event.js';
import type { Stores } from '../stores/open.js';
import { TransferError, importEvents } from '../stores/transfer.js';
import type { Context } from './cli.js';
import { CommandFailed } from './exit.js';
import { count, duration } from './progress.js';
import { applyImported } from './read-models.js';

const REASON = 'incomplete_import';

/**
 * Reads the appends of an export into an empty store, with the same ids, times and order. Run again, it continues where
 * it stopped.
 * @param isWhole whether the file is known to have every event of its log
 */
export async function importExport(
  context: Context & { stores: Stores },
  appends: AsyncIterable<RecordedEvent[]>,
  isWhole: boolean,
  json: boolean | undefined,
): Promise<void> {
  const { stores } = context;
  const started = performance.now();
  let result: Awaited<ReturnType<typeof importEvents>>;
  let settled = 0;
  const before = await stores.eventStore.head();
  try {
    result = await context.progress('Importing', 'events', (update) =>
      importEvents(appends, stores.eventStore, (events) => update((settled = events), events)),
    );
  } catch (error) {
    if (error instanceof StoreUnavailable) {
      const done = `The first ${count(settled)} events of the file are in the log`;
      throw new CommandFailed(`${error.explanation}. ${done}; run the command again to continue.`);
    }
    if (error instanceof TransferError && (await stores.eventStore.head()) > before) {
      throw new CommandFailed(`${error.message} The events before it are in the log.`);
    }
    throw error;
  }
  if (!isWhole) await replaceOrigin(stores.eventStore, result.appended > 0, context.actor);
  await applyImported(context);
  const { events, appended } = result;
  const seconds = (performance.now() - started) / 1000;
  const text = `${count(events)} events, ${count(appended)} of them new, in ${duration(seconds)}. The read models are up to date.`;
  context.print(json ? JSON.stringify({ events, appended, seconds }) : text);
}

/** Begins a new origin of checkpoints, since the log may lack events that those of its origin have. */
async function replaceOrigin(store: EventStore, isNew: boolean, actor: string): Promise<void> {
  const checkpoints = await store.readStream(CHECKPOINTS_STREAM);
  const last = checkpoints.findLast(({ type }) => type === logOriginBegun.type)?.data;
  if (last === undefined || (!isNew && last['reason_code'] === REASON)) return;
  await beginOrigin(store, String(last['origin']), REASON, actor);
}
