import type { ScoreDto } from '../features/disc/disc.dto.js';
import { REASONS } from '../features/relay/domain/relay.events.js';
import type { ActionState } from '../features/relay/domain/withdrawal.js';
import { ActionParams, ChangeActionDto } from '../features/withdrawals/withdrawals.dto.js';
import { ChangeAction, GetAction, PreviewChange } from '../features/withdrawals/withdrawals.handlers.js';
import { WithdrawalsModule } from '../features/withdrawals/withdrawals.module.js';
import { readBody, readParams } from '../http/validation.js';
import type { Cli, JsonOption } from './cli.js';
import { type HandlersContext, OPERATOR, commandOf, withHandlers } from './handlers.js';
import { applyAll } from './read-models.js';
import { table } from './table.js';

const FEATURES = [WithdrawalsModule];

export function actionsCommands(cli: Cli): void {
  const actions = cli.program.command('actions').description('withdraw, reinstate and look up single actions');

  for (const [name, to, description] of [
    ['withdraw', 'withdrawn', 'withdraw an action: it counts nowhere from now on; safe to repeat'],
    ['reinstate', 'counted', 'let a withdrawn action count again; safe to repeat'],
  ] as const) {
    actions
      .command(name)
      .description(description)
      .argument('<action-id>', 'its id')
      .requiredOption('--reason <reason>', `why: ${REASONS.join(', ')}`)
      .option('--dry-run', 'only print the score before and after')
      .action(withHandlers(cli, 'existing', FEATURES, changing(to)));
  }

  actions
    .command('show')
    .description('show an action, whether it counts, and its withdrawals')
    .argument('<action-id>', 'its id')
    .option('--json', 'print it as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, show));
}

function changing(to: ActionState) {
  return async (context: HandlersContext, id: string, options: { reason: string; dryRun?: boolean }) => {
    const { actor, commands, queries, stores, config, print } = context;
    const { action_id } = readParams(ActionParams, { action_id: id });
    const { reason } = readBody(ChangeActionDto, { reason: options.reason });
    const asked = { action_id, to, reason };
    if (options.dryRun) {
      const { before, after } = await queries.execute(new PreviewChange({ ...asked, actor: OPERATOR }));
      const rowOf = (when: string, { score, score_rating, total_tct }: ScoreDto) => {
        return { when, score, rating: score_rating, 'total TCT': total_tct };
      };
      print(table([rowOf('before', before!), rowOf('after', after!)]));
      return;
    }
    const position = await commands.execute(new ChangeAction({ ...asked, context: commandOf(actor, asked) }));
    print(`${action_id}: ${to} at ${position}`);
    // So that the next look-up shows it, with or without a running server.
    await applyAll(stores, config);
  };
}

async function show({ queries, print }: HandlersContext, id: string, { json }: JsonOption) {
  const { action_id } = readParams(ActionParams, { action_id: id });
  const action = await queries.execute(new GetAction({ action_id, actor: OPERATOR }));
  if (json) {
    print(JSON.stringify(action));
    return;
  }
  const { tris_id, metric, criticality, platform_id, occurred_at, state, changes } = action;
  print(table([{ identity: tris_id, metric, criticality, platform: platform_id, occurred: occurred_at, state }]));
  if (changes.length > 0)
    print(table(changes.map(({ at, state: became, reason, by }) => ({ at, became, reason, by }))));
}
