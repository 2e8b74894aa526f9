import { checkActions, nothingRecorded, recordActions } from '../../src/cli/import-actions.js';
import type { Stores } from '../../src/stores/open.js';

interface Options {
  waits?: boolean;
  /** Told of the bytes of the file that are checked. */
  onChecked?: (done: number, total: number) => void;
}

/** Checks a file of actions, and records them if nothing is wrong, as `credence import` does. */
export async function importFile(
  stores: Pick<Stores, 'eventStore' | 'keyValue'>,
  file: string,
  { waits = false, onChecked = () => undefined }: Options = {},
) {
  const checked = await checkActions(file, { clock: Date.now, format: 'relay', onProgress: onChecked });
  if (checked.wrong > 0) return nothingRecorded(checked);
  const options = { clock: Date.now, waits, actor: 'cli', onProgress: () => undefined };
  return recordActions(stores, checked.read(), checked.lines, options);
}
