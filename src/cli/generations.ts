import {
  GenerationError,
  NOTHING_SERVES,
  type RebuildProgress,
  drop,
  rebuild,
  rollback,
  swap,
} from '../read-side/generations.js';
import { refuseOtherLog } from '../read-side/manifest.js';
import type { Manifest } from '../stores/ports/read-models.js';
import { type Cli, CommandFailed, EXIT } from './cli.js';
import { count, duration } from './progress.js';

const NEW_LOG = 'even if the serving read models belong to another log, which this log has permanently replaced';

interface RebuildOptions {
  swap?: boolean;
  newLog?: boolean;
  json?: boolean;
}

/** rebuild, swap, rollback, drop: generations of read models beside the serving one. */
export function generationsCommands(cli: Cli): void {
  cli.program
    .command('rebuild')
    .description(
      'build a new generation of one view, or of all, beside the serving one; continues an interrupted build',
    )
    .argument('<view>', 'name of a view, or all')
    .option('--swap', 'serve the generation once it is built')
    .option('--new-log', NEW_LOG)
    .option('--json', 'print the result as JSON')
    .action(
      cli.withStores('existing', async (context, view: string, options: RebuildOptions) => {
        const { eventStore, readModels } = context.stores;
        const { newLog } = options;
        const manifest = await readModels.manifest();
        if (!newLog) refuseOtherLog(manifest, await readModels.generations(), eventStore.logId);
        if (options.swap && !manifest) throw new CommandFailed(NOTHING_SERVES);
        const started = performance.now();
        const bar = context.progress(`Rebuilding ${view}`, 'events');
        const stopping = new AbortController();
        const stop = () => stopping.abort();
        process.once('SIGINT', stop).once('SIGTERM', stop);
        let last: RebuildProgress | undefined;
        const generation = await inOneSentence(
          rebuild(view, eventStore, readModels, stopping.signal, (progress) => {
            last = progress;
            bar.update(progress.events, progress.total);
          }),
        ).finally(() => {
          bar.stop();
          process.off('SIGINT', stop).off('SIGTERM', stop);
        });
        const seconds = (performance.now() - started) / 1000;
        const events = last?.events ?? 0;
        if (options.swap) await inOneSentence(swap(generation.id, eventStore, readModels, newLog));
        const result = { generation: generation.id, events, seconds, swapped: options.swap === true };
        const next = options.swap
          ? `${generation.id} serves now.`
          : `credence swap ${generation.id}${newLog ? ' --new-log' : ''} serves it.`;
        const rate = count(events / Math.max(seconds, 0.001));
        context.print(
          options.json
            ? JSON.stringify(result)
            : `${generation.id} is ready: ${count(events)} events in ${duration(seconds)} (${rate}/s). ${next}`,
        );
        return EXIT.ok;
      }),
    );

  cli.program
    .command('swap')
    .description('serve the views of a ready generation; the previous one is kept for a rollback')
    .argument('<generation>')
    .option('--new-log', NEW_LOG)
    .action(
      cli.withStores('existing', async ({ stores, print }, id: string, { newLog }: { newLog?: boolean }) => {
        print(serving(await inOneSentence(swap(id, stores.eventStore, stores.readModels, newLog))));
        return EXIT.ok;
      }),
    );

  cli.program
    .command('rollback')
    .description('undo the last swap')
    .action(
      cli.withStores('existing', async ({ stores, print }) => {
        print(serving(await inOneSentence(rollback(stores.eventStore, stores.readModels))));
        return EXIT.ok;
      }),
    );

  cli.program
    .command('drop')
    .description('delete a generation that does not serve, and free its space')
    .argument('<generation>')
    .action(
      cli.withStores('existing', async ({ stores, print }, id: string) => {
        await inOneSentence(drop(id, stores.readModels));
        print(`Dropped ${id}.`);
        return EXIT.ok;
      }),
    );
}

function serving({ views }: Manifest): string {
  return Object.entries(views)
    .map(([view, id]) => `${view}: ${id}`)
    .join('\n');
}

async function inOneSentence<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof GenerationError) throw new CommandFailed(error.message);
    throw error;
  }
}
