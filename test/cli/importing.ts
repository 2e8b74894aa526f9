import { ActionLines } from '../../src/cli/action-lines.js';
import { type ImportReport, type RecordOptions, nothingRecorded, recordActions } from '../../src/cli/import-actions.js';

export interface ImportOptions extends Pick<RecordOptions, 'waits'> {
  onProgress?: (phase: 'checking' | 'recording', done: number, total: number) => void;
}

/** Checks a file of actions, and records them if nothing is wrong: as the command does, in this process. */
export async function importActions(
  stores: Parameters<typeof recordActions>[0],
  path: string,
  { waits, onProgress = () => undefined }: ImportOptions = {},
): Promise<ImportReport> {
  const file = new ActionLines(path);
  const checked = await file.check((done, total) => onProgress('checking', done, total));
  if (checked.wrong > 0) return nothingRecorded(checked);
  return recordActions(stores, file.read(), checked.lines, {
    waits,
    onProgress: (done, total) => onProgress('recording', done, total),
  });
}
