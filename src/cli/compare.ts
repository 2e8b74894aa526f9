import { readFile, stat } from 'node:fs/promises';
import type { Position, RecordedEvent } from '../kernel/event.js';
import { readLines } from '../kernel/lines.js';
import { addLeaf, base64Of, leafOf, rootOfPeaks } from '../kernel/merkle.js';
import { countEach } from '../read-side/log-tree.js';
import { endOfExport, isExport } from '../stores/transfer.js';
import { unreadable } from './body-file.js';
import type { Cli, Context, Prepared, StoresContext } from './cli.js';
import { CommandFailed, EXIT, type ExitCode, UsageError } from './exit.js';
import { count } from './progress.js';

/** What somebody kept: an export, whose leaves follow, or a checkpoint: the size of a tree, and its root in base64. */
type Kept = { size: number; root: string } | 'export';
type KeptLeaf = [leaf: string, position: Position];

const CHECKPOINT = /^[^\n]+\n([1-9]\d{0,14})\n([A-Za-z\d+/]{43}=)\n/;

export function compareCommand(cli: Cli): void {
  const log = cli.withStores<[string], Kept>('existing', compareLog, open);
  const service = cli.withConfig(compareService);
  cli.program
    .command('compare')
    .description('say whether the log still begins with what somebody kept: an export of it, or a checkpoint')
    .argument('<file>', 'the export or the checkpoint, of which no signature is verified')
    .option('--url <address>', 'ask the service at this address, not the log')
    .action((file: string, { url }: { url?: string }) => (url === undefined ? log(file) : service(file, url)));
}

async function open(_context: Context, file: string): Promise<Prepared<Kept>> {
  const found = await stat(file).catch(() => undefined);
  // A pipe can be read only once.
  if (found && !found.isFile() && !found.isDirectory()) throw new UsageError(`${file} is not a regular file.`);
  const given = isExport(file).catch((error: unknown) => {
    throw unreadable(file, error);
  });
  if (await given) {
    await refuseChanged(file);
    return { value: 'export', items: leavesIn(file) };
  }
  const [, size, root] = CHECKPOINT.exec(await readFile(file, 'utf8')) ?? [];
  if (root === undefined) throw new UsageError(`${file} is neither an export nor a checkpoint.`);
  return { value: { size: Number(size), root } };
}

/** What differs from a file that was changed says nothing about the log. @throws CommandFailed, TransferError */
async function refuseChanged(file: string): Promise<void> {
  const end = await endOfExport(file);
  if (!end) throw new CommandFailed(`${file} is not a complete export: its last line is missing.`);
  if (end.about !== undefined) {
    throw new CommandFailed(`${file} has only the events about ${end.about}, and cannot be compared with the log.`);
  }
  if (end.damaged) throw new CommandFailed(`${file} lacks damaged events, and cannot be compared.`);
  if (end.changed) {
    throw new CommandFailed(`${file} ${end.changed} since it was exported: it cannot show whether the log was.`);
  }
}

async function* leavesIn(file: string): AsyncGenerator<KeptLeaf[]> {
  for await (const { lines } of readLines(file, 2 ** 20)) {
    yield lines.flatMap(({ number, bytes }) => leafIn(String(bytes), `Line ${number} of ${file}`));
  }
}

/** None for the last line of an export. @throws CommandFailed */
function leafIn(text: string, where: string): KeptLeaf[] {
  try {
    const event = JSON.parse(text) as RecordedEvent & { end_of_export?: object };
    // With a name twice, a reader could see another event than this one.
    if (JSON.stringify(event) === text.trimEnd()) {
      return event.end_of_export ? [] : [[leafOf(event), event.position]];
    }
  } catch {
    // Told below.
  }
  throw new CommandFailed(`${where} is not an exported event.`);
}

/** The hashes of the log itself, not of the read models: whoever rewrote it may have left those as they were. */
async function compareLog({ stores, value, items, ...context }: StoresContext<Kept>): Promise<ExitCode> {
  const kept = flat(items);
  const peaks: string[] = [];
  let size = 0;
  const total = await stores.eventStore.countAfter(0);
  let position = 0;
  return context.progress('Comparing', 'events', async (update) => {
    for await (const slice of stores.eventStore.readAll(0)) {
      for (const event of slice) {
        const next = value === 'export' ? (await kept.next()).value : undefined;
        if (value === 'export' ? !next : size === value.size) {
          return decide(context, value, size, rootIn(peaks), await countEach(stores.eventStore, position));
        }
        const where = `at position ${event.position}`;
        if (event.damage) return differs(context, `event ${size}, ${where}, is damaged`);
        const leaf = leafOf(event);
        if (next && next[0] !== leaf) return differs(context, changed(size, next, where));
        addLeaf(peaks, size++, leaf);
        position = event.position;
      }
      update(size, total);
    }
    const hasMore = value === 'export' ? !(await kept.next()).done : value.size > size;
    return hasMore ? differs(context, tooShort(size)) : decide(context, value, size, rootIn(peaks), 0);
  });
}

/** @param items those of `leavesIn` */
async function* flat(items: AsyncIterable<unknown>): AsyncGenerator<KeptLeaf, undefined> {
  for await (const some of items) yield* some as KeptLeaf[];
}

/** What a service says of its tree, as its read models have it. */
async function compareService(context: Context, file: string, url: string): Promise<ExitCode> {
  const { value, items } = await open(context, file);
  const leaves: KeptLeaf[] = [];
  if (items) for await (const leaf of flat(items)) leaves.push(leaf);
  const rootAt = (size: number) => {
    const peaks: string[] = [];
    for (const [index, [leaf]] of leaves.slice(0, size).entries()) addLeaf(peaks, index, leaf);
    return rootIn(peaks);
  };
  const kept = value === 'export' ? { size: leaves.length, root: rootAt(leaves.length) } : value;
  const { to: total } = await ask(url, 'from=1');
  if (kept.size > total) return differs(context, tooShort(total));
  const served = async (size: number) => (await ask(url, `from=${size}&to=${size}`)).from_root;
  const root = await served(kept.size);
  if (root === kept.root || value !== 'export') return decide(context, kept, kept.size, root, total - kept.size);
  // The first `same` events are as they were; the first `other` are not.
  let [same, other] = [0, kept.size];
  while (other - same > 1) {
    const middle = Math.floor((same + other) / 2);
    if ((await served(middle)) === rootAt(middle)) same = middle;
    else other = middle;
  }
  return differs(context, changed(same, leaves[same]!, `of ${url}`));
}

/** @throws CommandFailed */
async function ask(url: string, query: string): Promise<{ to: number; from_root: string }> {
  const address = `${url.replace(/\/+$/, '')}/v1/audit/consistency?${query}`;
  const response = await fetch(address).catch((error: Error) => {
    throw new CommandFailed(`${address} gives no answer: ${String(error.cause ?? error)}.`);
  });
  if (!response.ok) throw new CommandFailed(`${address} answered ${response.status}: ${await response.text()}`);
  const answer = (await response.json().catch(() => null)) as { to: number; from_root: string } | null;
  if (typeof answer?.from_root === 'string') return answer;
  throw new CommandFailed(`${address} is not answered by a service of Credence.`);
}

/** Every event that was kept is there. */
function decide(context: Context, kept: Kept, size: number, root: string, more: number): ExitCode {
  if (kept !== 'export' && kept.root !== root) {
    return differs(context, `the first ${count(size)} events have the root ${root}, and ${kept.root} was kept`);
  }
  context.print(`The log begins with the ${count(size)} events that were kept, and has ${count(more)} more.`);
  return EXIT.ok;
}

function differs({ print }: Context, what: string): ExitCode {
  print(`DIFFERENT: ${what}.`);
  return EXIT.finding;
}

const changed = (index: number, [, position]: KeptLeaf, where: string): string =>
  `event ${count(index)}, which was kept with position ${position}, is not the one ${where}`;
const tooShort = (size: number): string => `the log has ${count(size)} events, fewer than were kept`;
const rootIn = (peaks: readonly string[]): string => base64Of(rootOfPeaks(peaks));
