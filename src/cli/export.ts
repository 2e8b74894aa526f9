import { stat } from 'node:fs/promises';
import { exportLines } from '../stores/transfer.js';
import { decodeEvent } from '../../projections/events.js';
import type { RecordedEvent } from '../kernel/event.js';
import { refuseMisspelled } from '../kernel/problems.js';
import type { Cli, Context, StoresContext } from './cli.js';
import { type ExitCode, CommandFailed, EXIT, UsageError, checkedTrisId } from './exit.js';
import { CSV_FEATURES, checkedTable, exportCsv } from './export-csv.js';
import { withHandlers } from './handlers.js';
import { openOutputFile } from './output-file.js';
import { count, describeDamage, duration } from './progress.js';

type Options = { out?: string; force?: true; csv?: string };

export function exportCommand(cli: Cli): void {
  const events = cli.withStores('existing', exportEvents, openOutput);
  const table = withHandlers(
    cli,
    'existing',
    CSV_FEATURES,
    (context, _tris: string | undefined, { csv }: Options) => exportCsv(context, csv!),
    openOutput,
  );
  cli.program
    .command('export')
    .description('write the events of the log as NDJSON, which credence import reads, or those about one identity')
    .argument('[tris]', 'export only the events about this identity')
    .option('--out <file>', 'write to a file instead of standard output')
    .option('--force', 'replace the file if it exists')
    .option('--csv <table>', 'write a table instead, as CSV: identities, with their scores as of now, or decisions')
    .action((tris: string | undefined, options: Options) =>
      (options.csv === undefined ? events : table)(tris, options),
    );
}

async function exportEvents(context: StoresContext, tris: string | undefined, _options: Options): Promise<ExitCode> {
  const { eventStore } = context.stores;
  const started = performance.now();
  const total = await eventStore.countAfter(0);
  let written = 0;
  const damaged: RecordedEvent[] = [];
  await context.progress('Exporting', 'events', async (update) => {
    const lines = exportLines(eventStore, tris === undefined ? undefined : isAbout(tris), {
      about: tris,
      onProgress: (read, events) => {
        written = events;
        update(read, total);
      },
      onDamage: (event) => damaged.push(event),
    });
    for await (const text of lines) await context.write(text);
  });
  if (written === 0) refuseMisspelled(tris);
  context.note(`${count(written)} events in ${duration((performance.now() - started) / 1000)}`);
  for (const event of damaged) context.note(`not exported: ${describeDamage(event)}`);
  return damaged.length === 0 ? EXIT.ok : EXIT.finding;
}

async function openOutput(_context: Context, tris: string | undefined, { out, force, csv }: Options) {
  if (tris !== undefined) checkedTrisId(tris);
  if (csv !== undefined) checkedTable(csv);
  if (csv !== undefined && tris !== undefined) throw new UsageError('--csv writes all of a table, not one identity.');
  if (out === undefined) return { value: undefined };
  const found = await stat(out).catch(() => undefined);
  if (!force && found?.isFile()) throw new CommandFailed(`${out} exists; --force replaces it.`);
  return { value: undefined, output: await openOutputFile(out) };
}

/** The members that name an identity. */
const NAMES = ['tris_id', 'tris_org', 'counterparty'] as const;

/**
 * Whether an event is about this identity: as its subject, as the receiver of a credonation, as a counterparty, or as a decision about it
 * and the revocation of its token. To be called with the events in log order.
 */
export function isAbout(tris: string): (event: RecordedEvent) => boolean {
  const decisions = new Set<string>();
  return (recorded) => {
    // Its identity is unknown: it may be this one.
    if (recorded.damage?.tris_id === null) return true;
    const { data } = decodeEvent(recorded) as { data: Partial<Record<(typeof NAMES)[number], unknown>> };
    if (recorded.data['subject_tris'] === tris) decisions.add(recorded.stream);
    return NAMES.some((name) => data[name] === tris) || decisions.has(recorded.stream);
  };
}
