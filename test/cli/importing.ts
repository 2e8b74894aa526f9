import {
  type ImportReport,
  type RecordOptions,
  checkActions,
  nothingRecorded,
  recordActions,
} from '../../src/cli/import-actions.js';

export interface ImportOptions extends Pick<RecordOptions, 'waits'> {
  onProgress?: (phase: 'checking' | 'recording', done: number, total: number) => void;
}

/** Checks a file of actions, and records them if nothing is wrong: as the command does, in this process. */
export async function importActions(
  stores: Parameters<typeof recordActions>[0],
  path: string,
  { waits, onProgress = () => undefined }: ImportOptions = {},
): Promise<ImportReport> {
  const of = (phase: 'checking' | 'recording') => ({
    onProgress: (done: number, total: number) => onProgress(phase, done, total),
  });
  const checked = await checkActions(path, of('checking'));
  if (checked.wrong > 0) return nothingRecorded(checked);
  return recordActions(stores, checked.read(), checked.lines, { ...of('recording'), waits });
}
