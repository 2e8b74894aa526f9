import { type Cli, EXIT } from './cli.js';
import { count, duration } from './progress.js';

export function upgradeCommand(cli: Cli): void {
  cli.program
    .command('upgrade')
    .description(
      'store the events of older builds in the compact form, also while a server of this build runs; safe to interrupt',
    )
    .action(
      cli.withStores('existing', async ({ stores: { eventStore }, print, progress }) => {
        const started = performance.now();
        const bar = progress('Writing the compact form', 'events');
        const written = (await eventStore.upgrade?.(bar.update).finally(bar.stop)) ?? 0;
        const seconds = (performance.now() - started) / 1000;
        print(written === 0 ? 'Nothing to upgrade.' : `Rewrote ${count(written)} events in ${duration(seconds)}.`);
        return EXIT.ok;
      }),
    );
}
