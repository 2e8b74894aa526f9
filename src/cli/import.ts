import { createWriteStream } from 'node:fs';
import { mkdtemp, open, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Cli, EXIT, type ExitCode, type StoresContext, UsageError } from './cli.js';
import { type ImportOptions, type ImportReport, importActions } from './import-actions.js';
import { isExport } from '../stores/transfer.js';
import { importExport } from './import-events.js';
import { count, duration } from './progress.js';
import { applyAll } from './read-models.js';

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
      cli.withStores('create', async (context, file: string, options: { json?: boolean; incomplete?: boolean }) =>
        withInput(context, 'import', file, async (path) =>
          (await isExport(path)) ? importExport(context, path, options) : run(context, path, 'relay', options),
        ),
      ),
    );
  command
    .command('aave')
    .description(
      'record a data set of Aave v2 lending (one {userWallet, network, logId, timestamp, action, …} per line) for each wallet’s own TRIS, tris:<address>',
    )
    .argument('<file>', 'the file; - reads standard input')
    .action(
      cli.withStores('create', async (context, file: string) =>
        withInput(context, 'import aave', file, (path) => run(context, path, 'aave', command.opts())),
      ),
    );
}

async function withInput(
  { io }: StoresContext,
  command: string,
  file: string,
  work: (path: string) => Promise<ExitCode>,
): Promise<ExitCode> {
  const input = file === '-' ? await spool(io.stdin) : await existing(file);
  try {
    await refuseCompressed(input.path, command, file);
    return await work(input.path);
  } finally {
    await input.remove();
  }
}

async function run(
  context: StoresContext,
  file: string,
  format: ImportOptions['format'],
  { json }: { json?: boolean },
): Promise<ExitCode> {
  const bars = { checking: context.progress('Checking', 'bytes'), recording: context.progress('Recording', 'lines') };
  let report: ImportReport;
  try {
    report = await importActions(context.stores, file, {
      clock: Date.now,
      format,
      waits: context.config.profile === 'cluster',
      onProgress: (phase, done, total) => bars[phase].update(done, total),
    });
  } finally {
    bars.checking.stop();
    bars.recording.stop();
  }
  if (report.wrong === 0) {
    const bar = context.progress('Updating the read models', 'events');
    await applyAll(context.stores, context.config, bar.update).finally(bar.stop);
  }

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

interface Input {
  path: string;
  remove(): Promise<void>;
}

async function existing(path: string): Promise<Input> {
  const found = await stat(path).catch(() => undefined);
  if (!found) throw new UsageError(`There is no file ${path}.`);
  if (!found.isFile()) throw new UsageError(`${path} is not a regular file; - reads standard input.`);
  return { path, remove: async () => undefined };
}

/** The first bytes of what these programs compress. */
const COMPRESSED = { gzip: '1f8b', zstd: '28b52ffd' };

async function refuseCompressed(path: string, command: string, file: string): Promise<void> {
  const opened = await open(path);
  const { buffer } = await opened.read(Buffer.alloc(4)).finally(() => opened.close());
  const start = buffer.toString('hex');
  for (const [program, bytes] of Object.entries(COMPRESSED)) {
    if (!start.startsWith(bytes)) continue;
    const [what, name] = file === '-' ? ['Standard input', '<file>'] : [file, file];
    throw new UsageError(`${what} is compressed with ${program}: use ${program} -dc ${name} | credence ${command} -`);
  }
}

/** A copy of standard input, since the input is read twice: checked, then recorded. */
async function spool(stdin: Readable): Promise<Input> {
  const folder = await mkdtemp(join(tmpdir(), 'credence-import-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  const path = join(folder, 'input.ndjson');
  try {
    await pipeline(stdin, createWriteStream(path));
  } catch (error) {
    await remove();
    throw error;
  }
  return { path, remove };
}
