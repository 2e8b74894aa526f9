import { PROFILES, type Profile } from '../kernel/config.js';
import type { EventStore } from '../stores/ports/event-store.js';
import { appendsOf, rootOfLog, importEvents } from '../stores/transfer.js';
import { prepareFolder } from '../app/start-failure.js';
import { openLog } from '../stores/open.js';
import { type Cli, type Context, type JsonOption, requireStore } from './cli.js';
import { EXIT, UsageError, chosen } from './exit.js';
import { count, duration } from './progress.js';

type Options = JsonOption & { from: string; to: string };

export function migrateCommand(cli: Cli): void {
  const profiles = PROFILES.join(' or ');
  cli.program
    .command('migrate')
    .description(
      'copy the log from one profile to the other and check that both are equal; continues an interrupted run',
    )
    .requiredOption('--from <profile>', profiles)
    .requiredOption('--to <profile>', profiles)
    .option('--json', 'print the result as JSON')
    .action(
      cli.withConfig(async (context, options: Options) => {
        const { config, print, atEnd } = context;
        const [from, to] = [profileOf(options.from), profileOf(options.to)];
        if (from === to) throw new UsageError('--from and --to must differ.');
        if (config.eventStoreUrl === undefined)
          throw new UsageError('Set EVENTSTORE_URL to the address of EventStoreDB.');
        if (from === 'embedded') requireStore(config.data);
        if (to === 'embedded') prepareFolder(config.data);

        const source = await openLog(from, config);
        atEnd(() => source.close());
        const target = await openLog(to, config);
        atEnd(() => target.close());
        const result = await migrate(context, source.log, target.log);
        print(options.json ? JSON.stringify(result) : render(result, from, to));
        return result.equal ? EXIT.ok : EXIT.finding;
      }),
    );
}

async function migrate({ progress }: Context, source: EventStore, target: EventStore) {
  const started = performance.now();
  const total = await source.countAfter(0);
  const { appended } = await progress('Copying', 'events', (update) =>
    importEvents(appendsOf(source), target, (events) => update(events, total)),
  );
  const { from, to } = await progress('Comparing', 'events', async (update) => ({
    from: await rootOfLog(source, (events) => update(events, 2 * total)),
    to: await rootOfLog(target, (events) => update(total + events, 2 * total)),
  }));
  const equal = from.root === to.root && from.events === to.events;
  return { equal, copied: appended, from, to, seconds: (performance.now() - started) / 1000 };
}

type Result = Awaited<ReturnType<typeof migrate>>;

function render({ equal, copied, from, to, seconds }: Result, source: Profile, target: Profile): string {
  return [
    `${count(copied)} events copied in ${duration(seconds)}`,
    `${source}: ${count(from.events)} events, ${from.root}`,
    `${target}: ${count(to.events)} events, ${to.root}`,
    equal ? 'equal' : 'DIFFERENT',
  ].join('\n');
}

function profileOf(text: string): Profile {
  return chosen(PROFILES, text, `A profile must be ${PROFILES.join(' or ')}, not "${text}".`);
}
