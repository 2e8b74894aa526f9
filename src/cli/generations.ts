import { DropGeneration, RebuildViews, ServeGenerations } from '../features/operations/generations.handlers.js';
import { OperationsModule } from '../features/operations/operations.module.js';
import type { Cli, JsonOption } from './cli.js';
import { type HandlersContext, withHandlers } from './handlers.js';
import { count, describeHidden, duration } from './progress.js';

const FEATURES = [OperationsModule];
const NEW_LOG = 'even if the serving read models belong to another log, which this log has permanently replaced';
type RebuildOptions = JsonOption & { swap?: boolean; newLog?: boolean };

export function generationsCommands(cli: Cli): void {
  cli.program
    .command('rebuild')
    .description(
      'build a new generation of one view, or of all, beside the serving one; an interrupted build starts again',
    )
    .argument('<view>', 'name of a view, or all')
    .option('--swap', 'serve the generation once it is built')
    .option('--new-log', NEW_LOG)
    .option('--json', 'print the result as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, rebuild));

  cli.program
    .command('swap <generation>')
    .description('serve the views of a ready generation; the previous one is kept for a rollback')
    .option('--new-log', NEW_LOG)
    .action(
      withHandlers(cli, 'existing', FEATURES, (context, id: string, { newLog }: { newLog?: boolean }) =>
        serve(context, { swap: id, newLog }),
      ),
    );

  cli.program
    .command('rollback')
    .description('undo the last swap')
    .action(withHandlers(cli, 'existing', FEATURES, (context) => serve(context, { rollback: undefined })));

  cli.program
    .command('drop <generation>')
    .description('delete a generation that does not serve, and free its space')
    .action(withHandlers(cli, 'existing', FEATURES, drop));
}

async function rebuild(context: HandlersContext, view: string, { swap, newLog, json }: RebuildOptions) {
  const { commands, progress, print, note, interruption } = context;
  const signal = interruption();
  const result = await progress(`Rebuilding ${view}`, 'events', (onProgress) =>
    commands.execute(new RebuildViews({ views: view, signal, onProgress, swap, newLog })),
  );
  const { generation, events, seconds, hidden_streams: hidden } = result;
  const next = swap
    ? `${generation} serves now.`
    : `credence swap ${generation}${newLog ? ' --new-log' : ''} serves it.`;
  const rate = count(events / Math.max(seconds, 0.001));
  const text = `${generation} is ready: ${count(events)} events in ${duration(seconds)} (${rate}/s). ${next}`;
  print(json ? JSON.stringify(result) : text);
  if (hidden) note(describeHidden(hidden));
}

async function serve({ commands, print }: HandlersContext, change: ServeGenerations['input']) {
  const { views } = await commands.execute(new ServeGenerations(change));
  for (const [view, id] of Object.entries(views)) print(`${view}: ${id}`);
}

async function drop({ commands, print }: HandlersContext, id: string) {
  await commands.execute(new DropGeneration({ generation: id }));
  print(`Dropped ${id}.`);
}
