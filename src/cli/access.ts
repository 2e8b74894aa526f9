import { type Audited, audit } from '../features/access/audit.js';
import { refuseMisspelled } from '../kernel/problems.js';
import type { Cli, JsonOption } from './cli.js';
import { EXIT, checkedTrisId } from './exit.js';
import { count } from './progress.js';
import { table } from './table.js';

export function accessCommands(cli: Cli): void {
  const access = cli.program.command('access').description('inspect access decisions');

  access
    .command('audit')
    .description('derive every recorded decision about a subject again from the log, and compare')
    .argument('<subject>', 'TRIS id of the subject')
    .option('--json', 'print the decisions as JSON')
    .action(
      cli.withStores('existing', async ({ stores, print, progress }, subject: string, { json }: JsonOption) => {
        checkedTrisId(subject);
        const decisions: Audited[] = [];
        await progress('Reading', 'events', async (update) => {
          for await (const decision of audit(stores.eventStore, subject, update)) decisions.push(decision);
        });
        if (decisions.length === 0) refuseMisspelled(subject);
        const wrong = decisions.filter(({ differences }) => differences.length > 0);
        if (json) print(JSON.stringify({ subject, agrees: wrong.length === 0, decisions }));
        else print(render(subject, decisions, wrong));
        return wrong.length === 0 ? EXIT.ok : EXIT.finding;
      }),
    );
}

function render(subject: string, decisions: readonly Audited[], wrong: readonly Audited[]): string {
  if (decisions.length === 0) return `no decisions about ${subject}`;
  const rows = decisions.map(({ position, checked_at, policy_id, granted, score, differences }) => ({
    position,
    checked: checked_at,
    policy: policy_id,
    decision: granted ? 'granted' : 'denied',
    score: score === null ? 'unknown' : score.toFixed(1),
    'derived again': differences.length === 0 ? 'agrees' : 'DIFFERENT',
  }));
  const details = wrong.flatMap(({ position, differences }) => differences.map((text) => `${position}: ${text}`));
  const result = wrong.length === 0 ? 'all agree' : `${count(wrong.length)} DIFFERENT`;
  return [
    table(rows),
    ...details,
    `${count(decisions.length)} ${decisions.length === 1 ? 'decision' : 'decisions'} about ${subject}: ${result}`,
  ].join('\n');
}
