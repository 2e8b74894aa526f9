import { viewNames } from '../read-side/generations.js';
import { OperationsModule } from '../features/operations/operations.module.js';
import { GetStatus } from '../features/operations/status.handlers.js';
import type { StatusDto } from '../features/operations/operations.dto.js';
import type { Cli, JsonOption } from './cli.js';
import { withHandlers } from './handlers.js';
import { count, duration } from './progress.js';
import { table } from './table.js';

export function statusCommand(cli: Cli): void {
  cli.program
    .command('status')
    .description('show the log, the generations of read models with their lag, dead letters and failed jobs')
    .option('--json', 'print it as JSON')
    .action(
      withHandlers(cli, 'existing', [OperationsModule], async ({ queries, print }, { json }: JsonOption) => {
        const status = await queries.execute(new GetStatus({ complete: true }));
        print(json ? JSON.stringify(status) : render(status));
      }),
    );
}

function render({ log_id, events, head, generations, dead_letters, failed_jobs }: StatusDto): string {
  const parts = [`log ${log_id}: ${count(events)} events, head ${head}`];
  const rows = generations.map(
    ({ id, status, of_this_log, serves, views, applied_events, lag_events, lag_seconds, lease }) => ({
      generation: id,
      status: of_this_log ? status : 'of another log',
      serves: serves.length === Object.keys(views).length ? 'all its views' : serves.join(', ') || '-',
      views: viewNames(Object.keys(views)),
      'applied events': applied_events === null ? '-' : count(applied_events),
      'lag events': count(lag_events),
      'lag time': duration(lag_seconds),
      lease: lease?.holder ?? '-',
    }),
  );
  parts.push(table(rows, 'no generation of read models yet: start the service, or import'));
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
