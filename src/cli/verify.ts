import { viewNames } from '../read-side/generations.js';
import { VerifyReadModels } from '../features/operations/generations.handlers.js';
import { OperationsModule } from '../features/operations/operations.module.js';
import { type Difference, type VerifyResult, isIdentical } from '../read-side/verify.js';
import type { TreeCheck } from '../read-side/log-tree.js';
import type { Cli, JsonOption, StoresContext } from './cli.js';
import { CommandFailed, EXIT, type ExitCode, UsageError } from './exit.js';
import { withHandlers } from './handlers.js';
import { count, describeDamage, describeHidden, duration } from './progress.js';

type Options = JsonOption & { index?: boolean; repair?: boolean };

export function verifyCommand(cli: Cli): void {
  cli.program
    .command('verify')
    .description('fold the whole log again and compare every row of the serving read models, also while a server runs')
    .option('--json', 'print the result as JSON')
    .option('--index', 'compare the index of streams with the log instead (embedded profile)')
    .option('--repair', 'with --index: add missing entries to the index, and remove entries without an event')
    .action(
      withHandlers(cli, 'existing', [OperationsModule], async (context, { json, index, repair }: Options) => {
        if (repair && !index) throw new UsageError('--repair needs --index.');
        if (index) return verifyIndex(context, repair === true, json === true);
        const { queries, print, progress } = context;
        const signal = context.interruption();
        const { seconds, ...result } = await progress('Verifying', 'events', (update) => {
          const onProgress: VerifyReadModels['input']['onProgress'] = ({ generation, done, total }) =>
            update(done, total, `Verifying ${generation}`);
          return queries.execute(new VerifyReadModels({ signal, onProgress }));
        });
        const identical = isIdentical(result);
        print(json ? JSON.stringify({ identical, ...result, seconds }) : render(result, seconds));
        return identical ? EXIT.ok : EXIT.finding;
      }),
    );
}

async function verifyIndex(context: StoresContext, repair: boolean, json: boolean): Promise<ExitCode> {
  const { eventStore } = context.stores;
  if (!eventStore.checkIndex)
    throw new CommandFailed('EventStoreDB maintains its own index; there is nothing to compare.');
  const started = performance.now();
  const check = await context.progress('Comparing the index', 'events', (update) =>
    eventStore.checkIndex!(repair, update),
  );
  const seconds = (performance.now() - started) / 1000;
  const { events, entries, newest, missing, stray } = check;
  const compared = `${count(events)} events and ${count(entries)} entries of the index compared, in ${duration(seconds)}`;
  const left =
    newest > 0 ? `\nthe newest ${count(newest)} events are not in it yet: each process reads them from the log` : '';
  const wrong = missing + stray;
  const found = `${count(missing)} events have a missing or wrong entry, ${count(stray)} entries have no event`;
  const verdict = wrong === 0 ? 'identical' : `${repair ? 'REPAIRED' : 'DIFFERENT'}: ${found}`;
  const result = { identical: wrong === 0, ...check, repaired: repair, seconds };
  context.print(json ? JSON.stringify(result) : `${compared}${left}\n${verdict}`);
  return wrong === 0 || repair ? EXIT.ok : EXIT.finding;
}

function render(result: VerifyResult, seconds: number): string {
  const { events, rows, generations, difference, damaged, hidden_streams: hidden, tree } = result;
  const names = generations.map(({ id, views, position, rows, disk_bytes }) => {
    const disk = disk_bytes > 0 ? `, with ${count(Math.ceil(disk_bytes / 1e6))} MB of temporary files` : '';
    return `  ${id} (${viewNames(views)}): ${count(rows)} rows at position ${position}${disk}`;
  });
  const compared = `${count(rows)} rows of ${generations.length} generation${generations.length > 1 ? 's' : ''} compared with a fresh fold of ${count(events)} events, in ${duration(seconds)}`;
  const unfinished = generations.flatMap(({ id, is_building, not_applied }) => {
    if (is_building) return `STILL BUILDING: ${id} has not applied ${count(not_applied)} events of the log yet`;
    return not_applied > 0 ? `${id} has not applied the last ${count(not_applied)} events of the log yet` : [];
  });
  const unread = damaged.slice(0, MAX_DAMAGED).map((event) => `DAMAGED: ${describeDamage(event)}`);
  if (damaged.length > unread.length) unread.push(`DAMAGED: ${count(damaged.length - unread.length)} more events`);
  if (hidden) unread.push(describeHidden(hidden));
  if (tree)
    names.push(`  the tree of ${count(tree.size)} events, ${count(tree.checkpoints)} checkpoints: ${tree.root}`);
  if (tree?.change) unread.push(describeChange(tree.change));
  const compares = difference
    ? describe(difference)
    : isIdentical(result)
      ? 'identical'
      : 'all compared rows are identical';
  return [compared, ...names, ...unread, ...unfinished, compares].join('\n');
}

function describeChange({ after, position, found_by }: NonNullable<TreeCheck['change']>): string {
  const where =
    found_by === 'tile' ? `the event at position ${position}` : `an event after position ${after}, up to ${position},`;
  return `CHANGED: ${where} is not the one of the ${found_by.replace('_', ' ')}`;
}

/** The maximum number of damaged events shown. */
const MAX_DAMAGED = 20;

function describe({ generation, view, key, sort, expected, found, position }: Difference): string {
  const shown = (value: unknown) => (value === null ? 'no such row' : JSON.stringify(value));
  return [
    `DIFFERENT: ${view} ${key}${sort === null ? '' : ` ${sort}`} of ${generation}, at position ${position}`,
    `  expected ${shown(expected)}`,
    `  found    ${shown(found)}`,
  ].join('\n');
}
