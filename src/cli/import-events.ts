import { StoreUnavailable } from '../stores/ports/event-store.js';
import type { RecordedEvent } from '../kernel/event.js';
import type { Stores } from '../stores/open.js';
import { TransferError, importEvents } from '../stores/transfer.js';
import type { Context } from './cli.js';
import { CommandFailed, EXIT, type ExitCode } from './exit.js';
import { count, duration } from './progress.js';
import { applyAll } from './read-models.js';

/** Reads the appends of an export into an empty store, with the same ids, times and order. Run again, it continues where it stopped. */
export async function importExport(
  context: Context & { stores: Stores },
  appends: AsyncIterable<RecordedEvent[]>,
  json: boolean | undefined,
): Promise<ExitCode> {
  const { stores, config } = context;
  const started = performance.now();
  const bar = context.progress('Importing', 'events');
  let result: Awaited<ReturnType<typeof importEvents>>;
  let settled = 0;
  try {
    result = await importEvents(appends, stores.eventStore, (events) => bar.update((settled = events), events));
  } catch (error) {
    if (error instanceof TransferError) throw new CommandFailed(error.message);
    if (error instanceof StoreUnavailable) {
      const done = `The first ${count(settled)} events of the file are in the log`;
      throw new CommandFailed(`${error.explanation}. ${done}; run the command again to continue.`);
    }
    throw error;
  } finally {
    bar.stop();
  }
  const applying = context.progress('Updating the read models', 'events');
  await applyAll(stores, config, applying.update).finally(applying.stop);
  const { events, appended } = result;
  const seconds = (performance.now() - started) / 1000;
  const text = `${count(events)} events, ${count(appended)} of them new, in ${duration(seconds)}. The read models are up to date.`;
  context.print(json ? JSON.stringify({ events, appended, seconds }) : text);
  return EXIT.ok;
}
