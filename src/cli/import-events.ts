import { StoreUnavailable } from '../stores/ports/event-store.js';
import { TransferError, appendsIn, checkExport, importEvents } from '../stores/transfer.js';
import { CommandFailed, EXIT, type ExitCode, type StoresContext } from './cli.js';
import { count, duration } from './progress.js';
import { applyAll } from './read-models.js';

/**
 * Reads an export into an empty store, with the same ids, times and order. Run again, it continues where it stopped.
 * @param options.incomplete accept a file that was truncated or changed
 */
export async function importExport(
  context: StoresContext,
  file: string,
  { json, incomplete }: { json?: boolean; incomplete?: boolean },
): Promise<ExitCode> {
  const { stores, config } = context;
  const started = performance.now();
  const bar = context.progress('Importing', 'events');
  let result: Awaited<ReturnType<typeof importEvents>>;
  let settled = 0;
  try {
    if (!incomplete) await checkExport(file);
    result = await importEvents(appendsIn(file), stores.eventStore, (events) => bar.update((settled = events), events));
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
