import { type Cli, EXIT } from './cli.js';
import { count, duration } from './progress.js';

export function upgradeCommand(cli: Cli): void {
  cli.program
    .command('upgrade')
    .description('add checksums to events that an older build stored, also while a server runs; safe to interrupt')
    .action(
      cli.withStores('existing', async ({ stores: { eventStore }, print, progress }) => {
        const started = performance.now();
        const bar = progress('Writing checksums', 'events');
        const given = (await eventStore.upgrade?.(bar.update).finally(bar.stop)) ?? 0;
        const seconds = (performance.now() - started) / 1000;
        print(
          given === 0 ? 'Nothing to upgrade.' : `Added checksums to ${count(given)} events in ${duration(seconds)}.`,
        );
        return EXIT.ok;
      }),
    );
}
