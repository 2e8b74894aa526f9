import { AccessPolicyHandlersModule } from '../features/access/ap.module.js';
import { CreateAccessPolicy } from '../features/access/ap.handlers.js';
import { hashed } from '../features/access/domain/access-policy.js';
import { titleOf } from '../features/lenses/domain/lens-stream.js';
import { identityOf } from '../features/lenses/domain/validation-policy.js';
import { SwitchPolicy } from '../features/validation-policies/promotions.js';
import { CreatePolicy } from '../features/validation-policies/vp.handlers.js';
import { ValidationPoliciesModule } from '../features/validation-policies/vp.module.js';
import { SHA256_HEX } from '../kernel/identifiers.js';
import type { Cli, Context, JsonOption, Prepared } from './cli.js';
import { CommandFailed, EXIT, type ExitCode, UsageError } from './exit.js';
import { type HandlersContext, commandOf, withHandlers } from './handlers.js';
import { type PolicyFile, readPolicyFiles } from './policy-files.js';
import {
  type Plan,
  type PlannedFile,
  type Preview,
  type Promotion,
  activePolicy,
  planOf,
  previewOf,
} from './policy-plan.js';
import { signed } from './population-change.js';
import { count } from './progress.js';
import { applyAll } from './read-models.js';
import { table } from './table.js';

const FEATURES = [ValidationPoliciesModule, AccessPolicyHandlersModule];

/** With the policies of the folder. */
type PoliciesContext = HandlersContext<PolicyFile[]>;
type Options = JsonOption & { expect?: string };

export function policiesCommands(cli: Cli): void {
  const policies = cli.program
    .command('policies')
    .description('create and promote the policies of a folder of YAML files; show before what that changes');

  policies
    .command('plan <folder>')
    .description(
      'show what apply would do, and what that changes for all identities. Exit code 1: there is something to do',
    )
    .option('--json', 'print the plan as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, showPlan, readAll));

  policies
    .command('apply <folder>')
    .description('create the new policies of the folder, and promote those that say so; safe to repeat')
    .option('--expect <hash>', 'the plan that was reviewed: refuse if the files or the policies have changed since')
    .option('--json', 'print the plan and what was done as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, apply, readAll));
}

async function showPlan(context: PoliciesContext, _folder: string, options: Options): Promise<ExitCode> {
  const { plan, preview } = await shownPlan(context, options);
  if (options.json) context.print(JSON.stringify(jsonOf(plan, preview)));
  return stepsOf(plan) === 0 ? EXIT.ok : EXIT.finding;
}

async function apply(context: PoliciesContext, _folder: string, options: Options): Promise<void> {
  const { plan, preview } = await shownPlan(context, options);
  const done = stepsOf(plan) === 0 ? [] : await carryOut(context, plan, options.json);
  if (options.json) context.print(JSON.stringify({ ...jsonOf(plan, preview), done }));
}

/** @throws UsageError unless all files are valid, after printing what is wrong with them */
async function readAll({ note }: Context, folder: string, { expect }: Options): Promise<Prepared<PolicyFile[]>> {
  if (expect !== undefined && !SHA256_HEX.test(expect)) {
    throw new UsageError(`"${expect}" is not the hash of a plan: 64 lower-case hexadecimal digits.`);
  }
  const { files, errors } = readPolicyFiles(folder);
  if (errors.length === 0) return { value: files };
  for (const error of errors) note(error);
  throw new UsageError(`Not all files of "${folder}" are valid; nothing was written.`);
}

/** Makes the plan, and prints it with its effect, except as JSON. @throws CommandFailed if it cannot be applied */
async function shownPlan(context: PoliciesContext, { json, expect }: Options) {
  const { stores, config, note, print } = context;
  await applyAll(stores, config);
  const plan = await planOf(context, context.value);
  // After it is applied, the same plan has nothing to do, and a different hash.
  if (expect !== undefined && expect !== plan.hash && stepsOf(plan) > 0) {
    const why = 'the files, the policies or the lenses have changed since';
    throw new CommandFailed(`The plan is ${plan.hash} now: ${why}. Nothing was written; plan again.`);
  }
  let preview: Preview = { promotions: [], access: [] };
  if (plan.refusals.length > 0) {
    print(json ? JSON.stringify(jsonOf(plan, preview)) : filesTable(plan));
    for (const refused of plan.refusals) note(refused);
    throw new CommandFailed('This plan cannot be applied; nothing was written.');
  }
  for (const { policy_id, state, places, warnings } of plan.files) {
    if (state === 'retired') note(`warning: ${places.policy_id}: ${policy_id} is retired`);
    if (state === 'new') for (const warning of warnings) note(`warning: ${warning}`);
  }
  let text = `nothing to do\nplan ${plan.hash}`;
  if (stepsOf(plan) > 0) {
    preview = await context.progress('Comparing', 'identities', (update) => previewOf(context, plan, update));
    text = `${effect(preview)}\n\n${summary(plan)}`;
  }
  if (!json) print(`${filesTable(plan)}\n\n${text}`);
  return { plan, preview };
}

function stepsOf({ created, promotions }: Plan): number {
  return created.length + promotions.length;
}

/**
 * Creates and promotes what the plan says.
 * @returns what was done
 * @throws CommandFailed, Problem after saying how far it came
 */
async function carryOut(context: PoliciesContext, plan: Plan, json: boolean | undefined) {
  const { stores, config, note, print } = context;
  // The preview of a large population takes a while.
  if ((await planOf(context, context.value)).hash !== plan.hash) throw changedMeanwhile('The policies or the lenses');
  const steps = [
    ...plan.created.map((file) => ({ what: `create ${file.policy_id}`, run: () => create(context, file) })),
    ...plan.promotions.map((promotion) => ({
      what: `promote ${promotion.file.policy_id} for ${ownerOf(promotion)}`,
      run: () => promote(context, promotion),
    })),
  ];
  const done: string[] = [];
  try {
    for (const { what, run } of steps) {
      await run();
      done.push(what);
      if (!json) print(`done: ${what}`);
    }
  } catch (error) {
    const failed = steps[done.length]!.what;
    note(`stopped at: ${failed}; ${done.length} of ${steps.length} steps are done. Run it again to continue.`);
    throw error;
  }
  await applyAll(stores, config);
  return done;
}

async function create({ actor, commands }: HandlersContext, { kind, content }: PlannedFile): Promise<void> {
  if (kind === 'vp')
    await commands.execute(new CreatePolicy({ content, context: commandOf(actor, identityOf(content)) }));
  else await commands.execute(new CreateAccessPolicy({ content, context: commandOf(actor, hashed(content)) }));
}

async function promote(context: HandlersContext, promotion: Promotion): Promise<void> {
  const { policy_id } = promotion.file;
  const { scope, before } = promotion;
  if ((await activePolicy(context, promotion)) !== before) throw changedMeanwhile(`The lens of ${ownerOf(promotion)}`);
  const command = commandOf(context.actor, { policy_id, scope, at: Date.now() });
  await context.commands.execute(
    new SwitchPolicy({ policyId: policy_id, scope, how: { replayId: null }, context: command, waitMs: 0 }),
  );
}

function changedMeanwhile(what: string): CommandFailed {
  return new CommandFailed(`${what} changed while this ran; plan again.`);
}

function ownerOf({ tris_org }: { tris_org: string | null }): string {
  return tris_org ?? 'the platform';
}

function filesTable({ files, promotions }: Plan): string {
  return table(
    files.map((planned) => {
      const { file, policy_id: policy, state } = planned;
      const promotion = promotions.find((other) => other.file === planned);
      const lens = promotion && `becomes that of ${ownerOf(promotion)}, now ${titleOf(promotion, promotion.before)}`;
      const isLens = planned.kind === 'vp' && planned.promote !== null && state !== 'changed';
      return { file, policy, state, lens: lens ?? (isLens ? 'is promoted' : '') };
    }),
  );
}

function effect({ promotions, access }: Preview): string {
  const parts = promotions.map(({ tris_org, ratings, change }) => {
    const { before, after, count: all, up, down, unchanged, mean_delta } = change;
    return [
      `${ownerOf({ tris_org })}: ${before.policy_id ?? 'the model’s own lens'} → ${after.policy_id}, ${count(all)} identities`,
      `  ratings: ${count(ratings.up)} up, ${count(ratings.down)} down`,
      `  scores: ${count(up)} up, ${count(down)} down, ${count(unchanged)} unchanged, ${signed(mean_delta)} on average`,
    ].join('\n');
  });
  if (access.length > 0) {
    parts.push(
      table(
        access.map(({ policy_id, pass_before, pass_after, gained, lost }) => ({
          'access policy': policy_id,
          'pass now': pass_before === null ? '' : count(pass_before),
          'would pass': count(pass_after),
          gain: gained === null ? '' : count(gained),
          lose: lost === null ? '' : count(lost),
        })),
      ),
    );
  }
  return parts.length > 0 ? parts.join('\n\n') : 'no identity changes';
}

function summary(plan: Plan): string {
  return `to do: policies to create ${plan.created.length}, lenses to switch ${plan.promotions.length}\nplan ${plan.hash}`;
}

function jsonOf(plan: Plan, preview: Preview) {
  const { hash, files, promotions, refusals } = plan;
  return {
    hash,
    files: files.map((planned) => {
      const promotion = promotions.find((other) => other.file === planned);
      const { file, kind, policy_id, content_hash, state, warnings } = planned;
      const promotes = promotion && { scope: promotion.scope, tris_org: promotion.tris_org, before: promotion.before };
      return { file, kind, policy_id, content_hash, state, promotes: promotes ?? null, warnings };
    }),
    refusals,
    ...preview,
  };
}
