import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { SignedCheckpoints } from '../credentials/log-key.js';
import { backup } from '../stores/backup.js';
import { type Cli, folderName } from './cli.js';
import { CommandFailed, EXIT } from './exit.js';
import { count, describeDamage, duration } from './progress.js';

interface Target {
  target: string;
  /** A file that the caller has written beside the target. */
  probe: string;
}

export function backupCommand(cli: Cli): void {
  cli.program
    .command('backup')
    .description('copy the log, the state and the keys into a new folder, also while the service runs')
    .argument('<folder>', 'a folder that does not exist yet', folderName)
    .action(
      cli.withFolder<[string], Target>(
        'existing',
        async ({ config, value: { target, probe }, interruption, progress, print, note }, folder: string) => {
          requireSight({ target, probe });
          const started = performance.now();
          const signed = await new SignedCheckpoints(config, null).last();
          const signal = interruption();
          const { events, damaged, isAsSigned } = await progress('Reading the copy', 'events', (onProgress) =>
            backup(config.data, target, { signal, onProgress, signed }),
          );
          const seconds = (performance.now() - started) / 1000;
          print(
            `Copied ${config.data} to ${folder} in ${duration(seconds)}: ${count(events)} events, all of them read back. The copy contains secret keys.`,
          );
          for (const event of damaged) note(`in the copy as in the log, ${describeDamage(event)}`);
          if (!isAsSigned)
            note(`the log does not begin with the ${count(signed!.size)} events that were signed (docs/verify.md)`);
          return damaged.length === 0 && isAsSigned ? EXIT.ok : EXIT.finding;
        },
        async ({ config, atEnd }, folder) => {
          if (config.profile === 'cluster') {
            throw new CommandFailed(
              'In the cluster profile, back up EventStoreDB with its own tools (docs/cluster.md); credence export copies the events.',
            );
          }
          const target = resolve(folder);
          const probe = `${target}.probe-${randomUUID()}`;
          try {
            await mkdir(dirname(target), { recursive: true });
            atEnd(() => rm(probe, { force: true }));
            await writeFile(probe, probe);
          } catch (error) {
            const { code } = error as NodeJS.ErrnoException;
            throw new CommandFailed(`${dirname(target)} is no folder that can be written to (${code}).`);
          }
          return { value: { target, probe } };
        },
      ),
    );
}

/** The owner of the folder makes the copy, and may see other disks than the caller. @throws CommandFailed */
function requireSight({ target, probe }: Target): void {
  if (existsSync(probe) && readFileSync(probe, 'utf8') === probe) return;
  throw new CommandFailed(
    `The service that owns the folder does not see ${dirname(target)} as you do: name a folder on a volume that both use, under the same path.`,
  );
}
