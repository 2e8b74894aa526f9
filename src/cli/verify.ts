import { type Difference, type VerifyResult, verify } from '../read-side/verify.js';
import { type Cli, CommandFailed, EXIT } from './cli.js';
import { type Progress, count, duration } from './progress.js';

export function verifyCommand(cli: Cli): void {
  cli.program
    .command('verify')
    .description(
      'fold the whole log again and compare every row of the serving read models, also beside a running server',
    )
    .option('--json', 'print the result as JSON')
    .action(
      cli.withStores('existing', async ({ stores, print, progress }, { json }: { json?: boolean }) => {
        const started = performance.now();
        let step = '';
        let bar: Progress | undefined;
        const result = await verify(stores.eventStore, stores.readModels, {
          onProgress: ({ generation, phase, pass, passes, done, total }) => {
            const label = `${phase === 'folding' ? 'Folding' : 'Comparing'} ${generation}, pass ${pass} of ${passes}`;
            if (label !== step) {
              bar?.stop();
              bar = progress(label, phase === 'folding' ? 'events' : 'rows');
              step = label;
            }
            bar!.update(done, total);
          },
        }).finally(() => bar?.stop());
        if (result.generations.length === 0) {
          throw new CommandFailed('No generation of read models serves yet: start the service once.');
        }
        const seconds = (performance.now() - started) / 1000;
        const identical = result.difference === null;
        print(json ? JSON.stringify({ identical, ...result, seconds }) : render(result, seconds));
        return identical ? EXIT.ok : EXIT.finding;
      }),
    );
}

function render({ events, rows, generations, difference }: VerifyResult, seconds: number): string {
  const names = generations.map(({ id, views, position, rows, passes }) => {
    return `  ${id} (${views.join(', ')}): ${count(rows)} rows at position ${position}${passes > 1 ? `, ${passes} passes` : ''}`;
  });
  const compared = `${count(rows)} rows of ${generations.length} generation${generations.length > 1 ? 's' : ''} compared with a fresh fold of ${count(events)} events, in ${duration(seconds)}`;
  return [compared, ...names, difference ? describe(difference) : 'identical'].join('\n');
}

function describe({ generation, view, key, sort, expected, found, position }: Difference): string {
  const shown = (value: unknown) => (value === null ? 'no such row' : JSON.stringify(value));
  return [
    `DIFFERENT: ${view} ${key}${sort === null ? '' : ` ${sort}`} of ${generation}, at position ${position}`,
    `  expected ${shown(expected)}`,
    `  found    ${shown(found)}`,
  ].join('\n');
}
