import { ACKNOWLEDGED_DEAD_LETTERS, type DeadLetterRow, OPEN_DEAD_LETTERS } from '../../projections/dead-letters.js';
import { formatPosition } from '../kernel/positions.js';
import { generationProgress } from '../read-side/generations.js';
import type { RangeRow, ReadModels } from '../stores/ports/read-models.js';
import type { Stores } from '../stores/open.js';
import { type Cli, EXIT } from './cli.js';
import { count, duration } from './progress.js';
import { table } from './table.js';

/** The maximum number of dead letters and failed jobs listed; all are counted. */
const LISTED = 20;
const PAGE = 1_000;

export function statusCommand(cli: Cli): void {
  cli.program
    .command('status')
    .description('show the log, the generations of read models with their lag, dead letters and failed jobs')
    .option('--json', 'print it as JSON')
    .action(
      cli.withStores('existing', async ({ stores, print }, { json }: { json?: boolean }) => {
        const status = await readStatus(stores);
        print(json ? JSON.stringify(status) : render(status));
        return EXIT.ok;
      }),
    );
}

type Status = Awaited<ReturnType<typeof readStatus>>;

async function readStatus(stores: Stores) {
  const { eventStore, readModels, jobs } = stores;
  const generations = await generationProgress(eventStore, readModels, Date.now);
  const failed = await jobs.list({ status: 'failed', limit: Number.MAX_SAFE_INTEGER });
  return {
    log_id: eventStore.logId,
    head: formatPosition(eventStore.logId, await eventStore.head()),
    events: await eventStore.countAfter(0),
    generations: generations.map(({ id, status, serves, views, checkpoint, isOwn, applied, lag, lease }) => ({
      id,
      status,
      of_this_log: isOwn,
      serves,
      views,
      position: formatPosition(checkpoint.log, checkpoint.position),
      applied_events: isOwn ? applied : null,
      lag_events: lag.events,
      lag_seconds: lag.seconds,
      lease: lease && { holder: lease.holder, expires_at: new Date(lease.expires_at).toISOString() },
    })),
    dead_letters: await deadLetters(stores),
    failed_jobs: {
      count: failed.length,
      newest: failed.slice(0, LISTED).map(({ kind, id, attempts, error, finished_at }) => {
        return { kind, id, attempts, error, finished_at };
      }),
    },
  };
}

async function deadLetters({ readModels }: Stores) {
  const id = (await readModels.manifest())?.views['dead_letters'];
  const found = { open: 0, acknowledged: 0, oldest_open: [] as DeadLetterRow[] };
  if (id === undefined) return found;
  for await (const rows of pages(readModels, id, OPEN_DEAD_LETTERS)) {
    found.open += rows.length;
    const missing = LISTED - found.oldest_open.length;
    found.oldest_open.push(...rows.slice(0, missing).map(({ value }) => value as unknown as DeadLetterRow));
  }
  for await (const rows of pages(readModels, id, ACKNOWLEDGED_DEAD_LETTERS)) found.acknowledged += rows.length;
  return found;
}

async function* pages(readModels: ReadModels, id: string, list: { view: string; key: string }) {
  for (let after: string | undefined; ;) {
    const read = await readModels.read(id, [{ range: { ...list, after, limit: PAGE } }]);
    const rows = (read?.results[0] ?? []) as RangeRow[];
    yield rows;
    if (rows.length < PAGE) return;
    after = rows.at(-1)!.sort;
  }
}

function render({ log_id, events, head, generations, dead_letters, failed_jobs }: Status): string {
  const parts = [`log ${log_id}: ${count(events)} events, head ${head}`];
  const rows = generations.map(
    ({ id, status, of_this_log, serves, views, applied_events, lag_events, lag_seconds, lease }) => ({
      generation: id,
      status: of_this_log ? status : 'of another log',
      serves: serves.length === Object.keys(views).length ? 'all its views' : serves.join(', ') || '-',
      views: Object.keys(views).join(', '),
      'applied events': applied_events === null ? '-' : count(applied_events),
      'lag events': count(lag_events),
      'lag time': duration(lag_seconds),
      lease: lease?.holder ?? '-',
    }),
  );
  parts.push(rows.length > 0 ? table(rows) : 'no generation of read models yet: start the service, or import');
  parts.push(`dead letters: ${count(dead_letters.open)} open, ${count(dead_letters.acknowledged)} acknowledged`);
  for (const { event_type, event_id, tris_id, reason } of dead_letters.oldest_open) {
    parts.push(`  ${event_type} ${event_id} of ${tris_id ?? 'an unknown identity'}: ${reason}`);
  }
  parts.push(`failed jobs: ${count(failed_jobs.count)}`);
  for (const { kind, id, attempts, error } of failed_jobs.newest) {
    parts.push(`  ${kind} ${id} after ${attempts} attempts: ${error}`);
  }
  return parts.join('\n');
}
