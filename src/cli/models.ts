import { type How, ListModels, SwitchModel } from '../features/validation-policies/promotions.js';
import { StartReplay } from '../features/validation-policies/replays.js';
import { ValidationPoliciesModule } from '../features/validation-policies/vp.module.js';
import { MODEL_IDS } from '../scoring/models/all.js';
import type { ModelId } from '../scoring/models/scoring-model.js';
import type { Cli, JsonOption } from './cli.js';
import { chosen } from './exit.js';
import { type HandlersContext, changed, commandOf, withHandlers } from './handlers.js';
import { printReplay } from './population-change.js';
import { table } from './table.js';

const FEATURES = [ValidationPoliciesModule];

export function modelsCommands(cli: Cli): void {
  const models = cli.program
    .command('models')
    .description('list the versions of the scoring model, compare them for all identities, promote and roll back');

  models
    .command('list')
    .description('list the versions, and say which one serves the platform')
    .option('--json', 'print them as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, list));

  models
    .command('replay')
    .description('compare a version with the one that serves, for all identities, and keep the result for a promotion')
    .argument('<model>', MODEL_IDS.join(' or '))
    .option('--json', 'print the result as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, replay));

  models
    .command('promote')
    .description('make a version the one that serves the platform, from now on')
    .argument('<model>', MODEL_IDS.join(' or '))
    .option('--replay <id>', 'id of the replay that the promotion is based on; recorded with it')
    .option('--json', 'print the result as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, switching('promote')));

  models
    .command('rollback')
    .description('return to the version that was active before a version was promoted')
    .argument('<model>', 'the active version')
    .option('--json', 'print the result as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, switching('rollback')));
}

async function list({ queries, print }: HandlersContext, { json }: JsonOption) {
  const { models } = await queries.execute(new ListModels());
  const rows = models.map(({ id, hash, active }) => ({ model: id, active: active ? 'yes' : 'no', hash }));
  print(json ? JSON.stringify(models) : table(rows));
}

async function replay(context: HandlersContext, id: string, options: JsonOption) {
  const model_id = modelOf(id);
  const command = commandOf(context.actor, { model_id, replay: true });
  const started = new StartReplay({ of: { modelId: model_id }, accessPolicies: undefined, context: command });
  await printReplay(context, await context.commands.execute(started), options);
}

/** The command itself does not wait: the read models are updated here, with or without a running server. */
function switching(what: 'promote' | 'rollback') {
  return async (context: HandlersContext, id: string, { replay, json }: JsonOption & { replay?: string }) => {
    const how: How = what === 'rollback' ? what : { replayId: replay ?? null };
    const modelId = modelOf(id);
    const command = commandOf(context.actor, { model_id: modelId, at: Date.now() });
    const switched = new SwitchModel({ modelId, how, context: command, waitMs: 0 });
    const { active, previous } = (await context.commands.execute(switched)).body;
    return changed(context, json ? JSON.stringify({ active, previous }) : `the platform uses ${active.id}`);
  };
}

function modelOf(text: string): ModelId {
  return chosen(MODEL_IDS, text, `The versions of the model are ${MODEL_IDS.join(', ')}; there is no "${text}".`);
}
