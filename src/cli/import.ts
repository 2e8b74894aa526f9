import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { beginOrigin } from '../features/checkpoints/begin-origin.js';
import { CHECKPOINTS_STREAM } from '../features/checkpoints/domain/checkpoints.js';
import { logOriginBegun } from '../features/checkpoints/domain/checkpoints.events.js';
import type { RecordedEvent } from '../kernel/event.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import { TransferError, appendsIn, checkExport, importEvents, isExport } from '../stores/transfer.js';
import { type ActionLine, ActionLines, type Format } from './action-lines.js';
import type { Cli, Context, JsonOption, Prepared, StoresContext } from './cli.js';
import { CommandFailed, EXIT, type ExitCode, UsageError } from './exit.js';
import { type ImportReport, nothingRecorded, recordActions } from './import-actions.js';
import { count, duration } from './progress.js';
import { applyImported } from './read-models.js';

type Options = JsonOption & { incomplete?: boolean };

const ORIGIN_REASON = 'incomplete_import';

/** What the file is: the number of its actions, or an export of events. */
type Value = { lines: number } | 'export';

export function importCommand(cli: Cli): void {
  const command = cli.program
    .command('import')
    .description(
      'record the actions of an NDJSON file (one body of POST /api/decision-relay per line), or read an export into an empty store; safe to repeat',
    )
    .argument('<file>', 'the file; - reads standard input')
    .option('--json', 'print the counts as JSON')
    .option(
      '--incomplete',
      'accept an export that was truncated or changed, or that lacks the last line with count and digest',
    )
    .action(
      cli.withStores<[string, Options], Value>('create', importPrepared, async (context, file, options) => {
        const path = await inputOf(context, 'import', file);
        return (await isExport(path))
          ? openExport(context, path, options)
          : openActions(context, path, 'relay', options);
      }),
    );
  command
    .command('aave')
    .description(
      'record a data set of Aave v2 lending (one {userWallet, network, logId, timestamp, action, …} per line) for each wallet’s own TRIS, tris:<address>',
    )
    .argument('<file>', 'the file; - reads standard input')
    .action(
      cli.withStores<[string], Value>(
        'create',
        (context, file) => importPrepared(context, file, command.opts()),
        async (context, file) =>
          openActions(context, await inputOf(context, 'import aave', file), 'aave', command.opts()),
      ),
    );
}

/** Checks a file of actions. @returns the exit code if a line is wrong, which is printed */
async function openActions(context: Context, file: string, format: Format, { json }: Options) {
  const actions = new ActionLines(file, format);
  const checked = await context.progress('Checking', 'bytes', (update) => actions.check(update));
  if (checked.wrong === 0) return { value: { lines: checked.lines }, items: actions.read() };
  return finish(context, nothingRecorded(checked), json);
}

async function openExport({ note }: Context, file: string, { incomplete }: Options): Promise<Prepared<Value>> {
  if (!incomplete) await checkExport(file);
  const tellCut = (line: number): void =>
    note(`The file is cut off: the append that begins at line ${line} is not whole, and is left out.`);
  return { value: 'export', items: appendsIn(file, incomplete ? tellCut : undefined) };
}

async function importPrepared(context: StoresContext<Value>, _file: string, { incomplete, json }: Options) {
  const { value, items, stores, config } = context;
  const stopBulk = stores.eventStore.startBulk?.();
  try {
    if (value === 'export')
      return await importExport(context, items as AsyncIterable<RecordedEvent[]>, !incomplete, json);
    const options = { waits: config.profile === 'cluster', actor: context.actor };
    const report = await context.progress('Recording', 'lines', (onProgress) =>
      recordActions(stores, items as AsyncIterable<ActionLine[]>, value.lines, { ...options, onProgress }),
    );
    await applyImported(context);
    return finish(context, report, json);
  } finally {
    stopBulk?.();
  }
}

/**
 * Reads the appends of an export into an empty store, with the same ids, times and order. Run again, it continues where
 * it stopped.
 * @param isWhole whether the file is known to have every event of its log
 */
async function importExport(
  context: StoresContext,
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
  if (last === undefined || (!isNew && last['reason_code'] === ORIGIN_REASON)) return;
  await beginOrigin(store, String(last['origin']), ORIGIN_REASON, actor);
}

function finish(context: Context, report: ImportReport, json: boolean | undefined): ExitCode {
  for (const { line, pointer, message } of report.errors) {
    context.note(`line ${line}${pointer && ` ${pointer}`}: ${message}`);
  }
  context.print(json ? JSON.stringify(report) : summary(report));
  return report.wrong + report.conflicts > 0 ? EXIT.finding : EXIT.ok;
}

function summary({ lines, wrong, recorded, already_present, conflicts, seconds }: ImportReport): string {
  if (wrong > 0) return `${count(wrong)} of ${count(lines)} lines are invalid; nothing was recorded.`;
  const parts = [`${count(recorded)} recorded`, `${count(already_present)} already present`];
  if (conflicts > 0) parts.push(`${count(conflicts)} in conflict`);
  const rate = count(lines / Math.max(seconds, 0.001));
  return `${count(lines)} lines: ${parts.join(', ')}, in ${duration(seconds)} (${rate} lines/s). The read models are up to date.`;
}

/** The first bytes of what these programs compress. */
const COMPRESSED = { gzip: '1f8b', zstd: '28b52ffd' };

/** The path of what a command reads. @param file its argument @throws UsageError */
async function inputOf(context: Context, command: string, file: string): Promise<string> {
  const path = file === '-' ? await spool(context) : file;
  const found = await stat(path).catch(() => undefined);
  if (!found) throw new UsageError(`There is no file ${path}.`);
  if (!found.isFile()) throw new UsageError(`${path} is not a regular file; - reads standard input.`);
  const opened = await open(path);
  const { buffer } = await opened.read(Buffer.alloc(4)).finally(() => opened.close());
  const start = buffer.toString('hex');
  for (const [program, bytes] of Object.entries(COMPRESSED)) {
    if (!start.startsWith(bytes)) continue;
    const [what, name] = file === '-' ? ['Standard input', '<file>'] : [file, file];
    throw new UsageError(`${what} is compressed with ${program}: use ${program} -dc ${name} | credence ${command} -`);
  }
  return path;
}

/** A copy of standard input, since the input is read twice: checked, then recorded. */
async function spool({ io, atEnd }: Context): Promise<string> {
  let folder: string | undefined;
  const remove = () => folder !== undefined && rmSync(folder, { recursive: true, force: true });
  const end = (signal: NodeJS.Signals) => {
    // The service that carries out the command ends it, and the copy is removed then.
    if (process.listenerCount(signal) > 1) return;
    remove();
    process.off(signal, end).kill(process.pid, signal);
  };
  atEnd(() => {
    process.off('SIGINT', end).off('SIGTERM', end);
    remove();
  });
  // Before the folder is there, which a signal would leave behind otherwise.
  process.on('SIGINT', end).on('SIGTERM', end);
  folder = mkdtempSync(join(tmpdir(), 'credence-import-'));
  const path = join(folder, 'input.ndjson');
  await pipeline(io.stdin, createWriteStream(path));
  return path;
}
