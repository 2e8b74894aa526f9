import { stat } from 'node:fs/promises';
import { projectionsFor } from '../app/app.module.js';
import { formatPosition } from '../kernel/positions.js';
import { SaveSnapshots } from '../features/operations/generations.handlers.js';
import { OperationsModule } from '../features/operations/operations.module.js';
import { complete, swap } from '../read-side/generations.js';
import { ensureManifest, refuseOtherLog } from '../read-side/manifest.js';
import { listSnapshots, loadSnapshot, misfitOf } from '../read-side/snapshots.js';
import { type Snapshot, SnapshotDamaged, snapshotAt } from '../stores/ports/snapshot-file.js';
import { type Cli, CommandFailed, EXIT, type StoresContext, UsageError } from './cli.js';
import { type HandlersContext, withHandlers } from './handlers.js';
import { type Progress, count, duration } from './progress.js';
import { table } from './table.js';

const FOLDER = 'folder of the snapshots; default: CREDENCE_SNAPSHOTS';

interface Options {
  folder?: string;
  generation?: string;
  swap?: boolean;
  json?: boolean;
}

/** snapshot save, load, list: files with the rows of a generation, to get read models back without a rebuild. */
export function snapshotCommands(cli: Cli): void {
  const snapshot = cli.program.command('snapshot').description('snapshots of the read models');

  snapshot
    .command('save')
    .description('save the generations that serve, also while a server runs')
    .option('--generation <id>', 'save this generation only')
    .option('--folder <folder>', FOLDER)
    .option('--json', 'print the result as JSON')
    .action(withHandlers(cli, 'existing', [OperationsModule], save));

  snapshot
    .command('load')
    .description('fill a new generation from a snapshot and apply the events after it')
    .argument('[file]', 'default: the newest one that fits this log and this build')
    .option('--swap', 'serve the generation once it is complete')
    .option('--folder <folder>', FOLDER)
    .option('--json', 'print the result as JSON')
    .action(cli.withStores('existing', load));

  snapshot
    .command('list')
    .description('list the snapshots, the newest first, and why one cannot be used')
    .option('--folder <folder>', FOLDER)
    .option('--json', 'print it as JSON')
    .action(cli.withStores('existing', list));
}

async function save(context: HandlersContext, options: Options) {
  const { commands, config, print, progress } = context;
  const { signal } = new AbortController();
  let saving = '';
  let bar: Progress | undefined;
  const onProgress = (id: string, rows: number, total: number) => {
    if (id !== saving) {
      bar?.stop();
      bar = progress(`Saving ${id}`, 'rows');
      saving = id;
    }
    bar!.update(rows, total);
  };
  const run = { signal, onProgress };
  const { generation = null } = options;
  const command = new SaveSnapshots(generation, folderOf(context, options), config.retainedSnapshots, run);
  const saved = await commands.execute(command).finally(() => bar?.stop());
  if (options.json) print(JSON.stringify(saved.map(described)));
  else {
    for (const { path, generation, rows, bytes, checkpoint, seconds } of saved) {
      const size = `${count(rows)} rows up to position ${checkpoint.position}, ${megabytes(bytes)}`;
      print(`${generation} saved as ${path}: ${size}, in ${duration(seconds)}`);
    }
  }
  return EXIT.ok;
}

async function load(context: StoresContext, file: string | undefined, options: Options) {
  const { eventStore, readModels } = context.stores;
  refuseOtherLog(await readModels.manifest(), await readModels.generations(), eventStore.logId);
  const chosen = file === undefined ? await newest(context, options) : await inOneSentence(snapshotOf(file));
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  process.once('SIGINT', stop).once('SIGTERM', stop);
  try {
    const { signal } = stopping;
    const started = performance.now();
    const loading = context.progress(`Loading ${chosen.rows} rows`, 'rows');
    const id = await inOneSentence(
      loadSnapshot(chosen, eventStore, readModels, { signal, onProgress: loading.update }),
    ).finally(loading.stop);
    const loaded = performance.now();
    const applying = context.progress('Applying the events after it', 'events');
    let events = 0;
    await inOneSentence(
      complete(id, eventStore, readModels, signal, (progress) => {
        events = progress.events;
        applying.update(progress.events, progress.total);
      }),
    ).finally(applying.stop);
    if (options.swap) await inOneSentence(serve(context, id));
    const [load, tail] = [(loaded - started) / 1000, (performance.now() - loaded) / 1000];
    const next = options.swap ? `${id} serves now.` : `credence swap ${id} serves it.`;
    context.print(
      options.json
        ? JSON.stringify({ ...described(chosen), generation: id, load_seconds: load, events, tail_seconds: tail })
        : `${id} is ready: ${count(chosen.rows)} rows in ${duration(load)}, then ${count(events)} events in ${duration(tail)}. ${next}`,
    );
    return EXIT.ok;
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

async function list(context: StoresContext, options: Options) {
  const { eventStore } = context.stores;
  const folder = folderOf(context, options);
  const rows = await Promise.all(
    (await listSnapshots(folder)).map(async (listed) =>
      'snapshot' in listed
        ? { ...described(listed.snapshot), unfit: (await misfitOf(listed.snapshot, eventStore)) ?? null }
        : { path: listed.path, unfit: listed.damage },
    ),
  );
  context.print(options.json ? JSON.stringify(rows) : render(folder, rows));
  return EXIT.ok;
}

type Row = { path: string; unfit: string | null } & Partial<ReturnType<typeof described>>;

function render(folder: string, rows: readonly Row[]): string {
  if (rows.length === 0) return `There is no snapshot in ${folder}.`;
  return table(
    rows.map(({ path, created_at, generation, position, rows: count_, bytes, unfit }) => ({
      snapshot: path,
      saved: created_at ?? '-',
      generation: generation ?? '-',
      position: position ?? '-',
      rows: count_ === undefined ? '-' : count(count_),
      size: bytes === undefined ? '-' : megabytes(bytes),
      usable: unfit === null ? 'yes' : `no: ${unfit}`,
    })),
  );
}

function described({ path, generation, views, created_at, checkpoint, rows, bytes }: Snapshot) {
  const position = formatPosition(checkpoint.log, checkpoint.position);
  return { path, generation, views, created_at, position, rows, bytes };
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function folderOf({ config }: StoresContext, { folder = config.snapshots }: Options): string {
  if (folder === undefined) throw new UsageError('Set CREDENCE_SNAPSHOTS or --folder to the folder of the snapshots.');
  return folder;
}

async function newest(context: StoresContext, options: Options): Promise<Snapshot> {
  const folder = folderOf(context, options);
  const unfit: string[] = [];
  for (const listed of await listSnapshots(folder)) {
    const misfit = 'snapshot' in listed ? await misfitOf(listed.snapshot, context.stores.eventStore) : listed.damage;
    if (misfit === undefined && 'snapshot' in listed) return listed.snapshot;
    unfit.push(`${listed.path}: ${misfit}`);
  }
  for (const line of unfit) context.note(line);
  throw new CommandFailed(`There is no snapshot in ${folder} that fits this log and this build.`);
}

async function snapshotOf(file: string): Promise<Snapshot> {
  const found = await stat(file).catch(() => undefined);
  if (!found?.isFile()) throw new CommandFailed(`There is no file ${file}.`);
  return snapshotAt(file);
}

/** Serves a generation, also if the manifest or the generations that it names were lost. */
async function serve({ config, stores }: StoresContext, id: string): Promise<void> {
  const { eventStore, readModels } = stores;
  const projections = projectionsFor(config.modules);
  const { views } = await ensureManifest(projections, eventStore, readModels, [id]);
  if (!Object.values(views).includes(id)) await swap(id, eventStore, readModels);
}

async function inOneSentence<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SnapshotDamaged) throw new CommandFailed(`The snapshot cannot be loaded: ${error.message}.`);
    throw error;
  }
}
