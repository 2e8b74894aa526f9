import { resolve } from 'node:path';
import { backup } from '../stores/backup.js';
import { type Cli, CommandFailed, EXIT, requireStore } from './cli.js';
import { count, describeDamage, duration } from './progress.js';

export function backupCommand(cli: Cli): void {
  cli.program
    .command('backup')
    .description('copy the log, the state and the keys into a new folder, also while the service runs')
    .argument('<folder>', 'a folder that does not exist yet')
    .action(
      cli.withConfig(async ({ config, print, note }, folder: string) => {
        if (config.profile === 'cluster') {
          throw new CommandFailed(
            'In the cluster profile, back up EventStoreDB with its own tools (docs/cluster.md); credence export copies the events.',
          );
        }
        requireStore(config.data);
        const started = performance.now();
        const { events, damaged } = await backup(config.data, resolve(folder));
        const seconds = (performance.now() - started) / 1000;
        print(
          `Copied ${config.data} to ${folder} in ${duration(seconds)}: ${count(events)} events, all of them read back. The copy contains secret keys.`,
        );
        for (const event of damaged) note(`in the copy as in the log, ${describeDamage(event)}`);
        return damaged.length === 0 ? EXIT.ok : EXIT.finding;
      }),
    );
}
