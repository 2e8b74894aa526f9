import { readBody } from '../http/validation.js';
import { AccessProbes } from '../features/access/access-probes.js';
import { type Comparison, side } from '../features/validation-policies/comparison.js';
import { EvaluatePolicy } from '../features/validation-policies/evaluate.handlers.js';
import { PLATFORM, lensOwner, titleOf } from '../features/lenses/domain/lens-stream.js';
import { MODEL_VP, Lenses } from '../features/lenses/lenses.js';
import { LENS_SCOPES, type LensScope } from '../features/lenses/domain/lenses.events.js';
import { type How, SwitchPolicy } from '../features/validation-policies/promotions.js';
import { Replays, StartReplay } from '../features/validation-policies/replays.js';
import { CreatePolicyDto, type EvaluatedSubjectDto, toContent } from '../features/validation-policies/vp.dto.js';
import { CreatePolicy, GetPolicy, RetirePolicy } from '../features/validation-policies/vp.handlers.js';
import { ValidationPoliciesModule } from '../features/validation-policies/vp.module.js';
import { type PolicyContent, identityOf } from '../features/lenses/domain/validation-policy.js';
import { Views } from '../read-side/views.js';
import type { Scoring } from '../scoring/models/all.js';
import { readBodyFile } from './body-file.js';
import type { Cli, Context, JsonOption } from './cli.js';
import { UsageError, checkedTrisId, chosen } from './exit.js';
import { type HandlersContext, OPERATOR, changed, commandOf, withHandlers } from './handlers.js';
import { openOutputFile } from './output-file.js';
import { printReplay, renderChange, signed } from './population-change.js';
import { table } from './table.js';

const FEATURES = [ValidationPoliciesModule];
const ACTIVE = 'active';
const CSV_COLUMNS =
  'tris_id,score_before,rating_before,total_tct_before,score_after,rating_after,total_tct_after,delta';

type ScopeOptions = JsonOption & { scope: string };
type DiffOptions = JsonOption & { csv?: string; ndjson?: string };

export function vpCommands(cli: Cli): void {
  const vp = cli.program
    .command('vp')
    .description('preview, promote and roll back validation policies, and compare them for all identities');

  vp.command('create <file>')
    .description('create a policy from a JSON file; safe to repeat')
    .action(withHandlers(cli, 'create', FEATURES, create, async (_, file: string) => ({ value: readPolicy(file) })));

  vp.command('retire')
    .description('retire a policy: it can no longer be promoted; where it is in use, it stays')
    .argument('<policy>', 'id of a policy')
    .action(withHandlers(cli, 'existing', FEATURES, retire));

  scoped(vp.command('evaluate'))
    .description('show what a policy would change; writes nothing')
    .argument('<policy>', 'id of a policy, or a JSON file')
    .option('--subjects <list>', 'TRIS ids, separated by commas; default: all identities')
    .option('--access <list>', 'access policies whose decisions are compared, separated by commas')
    .action(withHandlers(cli, 'existing', FEATURES, evaluate, async (_, id: string) => ({ value: policyIn(id) })));

  scoped(vp.command('replay'))
    .description('replay all identities under a policy, and keep the result for a promotion')
    .argument('<policy>', 'id of a policy')
    .action(withHandlers(cli, 'existing', FEATURES, replay));

  vp.command('diff')
    .description('compare two policies for all identities')
    .argument('<a>', `id of a policy, ${MODEL_VP} for the model's own lens, or ${ACTIVE} for the platform's lens`)
    .argument('<b>', 'the same')
    .option('--csv <file>', 'write every change as CSV; - for standard output, instead of the summary')
    .option('--ndjson <file>', 'write every change as NDJSON; - for standard output, instead of the summary')
    .option('--json', 'print the summary as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, diff, openDiff));

  scoped(vp.command('promote'))
    .description('make a policy the lens of the platform, or of the owning organization, from now on')
    .argument('<policy>', 'id of a policy')
    .option('--replay <id>', 'id of the replay that the promotion is based on; recorded with it')
    .action(withHandlers(cli, 'existing', FEATURES, switching('promote')));

  scoped(vp.command('rollback'))
    .description('return to the lens that was active before a policy was promoted')
    .argument('<policy>', 'id of the active policy')
    .action(withHandlers(cli, 'existing', FEATURES, switching('rollback')));
}

async function create(context: HandlersContext<PolicyContent>, _file: string) {
  const { value: content, actor, commands, note } = context;
  const command = commandOf(actor, identityOf(content));
  const { body } = await commands.execute(new CreatePolicy({ content, context: command }));
  for (const { message } of body.warnings) note(`warning: ${message}`);
  return changed(context, `${body.policy_id} ${body.status} ${body.content_hash}`);
}

async function retire(context: HandlersContext, id: string) {
  const command = commandOf(context.actor, { policy_id: id, retired: true });
  const { body } = await context.commands.execute(new RetirePolicy({ policyId: id, context: command }));
  return changed(context, `${body.policy_id} ${body.status}`);
}

async function replay(context: HandlersContext, id: string, options: ScopeOptions) {
  const command = commandOf(context.actor, { policy_id: id, scope: options.scope, replay: true });
  const of = { policyId: id, scope: scopeOf(options.scope) };
  const started = new StartReplay({ of, accessPolicies: undefined, context: command });
  await printReplay(context, await context.commands.execute(started), options);
}

async function evaluate(
  { value: policy, queries, print, interruption }: HandlersContext<PolicyContent | string>,
  _id: string,
  options: ScopeOptions & { subjects?: string; access?: string },
) {
  const subjects = listOf(options.subjects)?.map(checkedTrisId);
  const scope = scopeOf(options.scope);
  const accessPolicies = listOf(options.access) ?? [];
  const evaluation = await queries.execute(
    new EvaluatePolicy({ policy, scope, subjects, accessPolicies, actor: OPERATOR, signal: interruption() }),
  );
  if (options.json) print(JSON.stringify(evaluation));
  else if (subjects) print(renderSubjects(evaluation.results));
  else {
    const { policy_id, lens, ...rest } = evaluation;
    print(renderChange({ ...rest, ...rest.summary, before: lens, after: { policy_id } }));
  }
}

async function openDiff(_context: Context, _a: string, _b: string, { csv, ndjson }: DiffOptions) {
  if (csv !== undefined && ndjson !== undefined) throw new UsageError('--csv and --ndjson cannot be combined.');
  const file = csv ?? ndjson;
  return { value: undefined, ...(file !== undefined && file !== '-' && { output: await openOutputFile(file) }) };
}

async function diff(context: HandlersContext, a: string, b: string, options: DiffOptions) {
  const lenses = context.get(Lenses);
  const replays = context.get(Replays);
  const manifest = await context.get(Views).manifest();
  const lens = (id: string): Promise<Scoring> => lenses.resolve(id === ACTIVE ? {} : { vp: id }, manifest, [undefined]);
  const file = options.csv ?? options.ndjson;
  const isCsv = options.csv !== undefined;
  let rows = isCsv ? `${CSV_COLUMNS}\n` : '';
  const writeRows = async () => {
    const text = rows;
    rows = '';
    if (file !== undefined) await context.write(text);
  };
  const [before, after] = [await lens(a), await lens(b)];
  const probes = await context.get(AccessProbes).probes(PLATFORM);
  const signal = context.interruption();
  const change = await context.progress('Comparing', 'identities', (update) =>
    replays.between(before, after, manifest, probes, signal, {
      onIdentity: (trisId, comparison) => {
        if (file !== undefined) rows += diffRow(trisId, comparison, isCsv);
      },
      onPage: async (done, total) => {
        update(done, total);
        await writeRows();
      },
    }),
  );
  await writeRows();
  if (file !== '-') context.print(options.json ? JSON.stringify(change) : renderChange(change));
}

function scoped(command: ReturnType<Cli['program']['command']>) {
  return command
    .option('--scope <scope>', `whose lens is meant: ${LENS_SCOPES.join(' or ')}`, 'platform')
    .option('--json', 'print the result as JSON');
}

/** The command itself does not wait: the read models are updated here, with or without a running server. */
function switching(what: 'promote' | 'rollback') {
  return async (context: HandlersContext, policyId: string, options: ScopeOptions & { replay?: string }) => {
    const how: How = what === 'rollback' ? what : { replayId: options.replay ?? null };
    const scope = scopeOf(options.scope);
    const command = commandOf(context.actor, { policy_id: policyId, scope, at: Date.now() });
    const switched = new SwitchPolicy({ policyId, scope, how, context: command, waitMs: 0 });
    const { active } = (await context.commands.execute(switched)).body;
    const owner = lensOwner(scope, (await context.queries.execute(new GetPolicy({ policyId }))).tris_org);
    const text = `${owner.tris_org ?? 'the platform'} uses ${titleOf(owner, active.policy_id)}`;
    return changed(context, options.json ? JSON.stringify({ scope, active }) : text);
  };
}

/** The content of a JSON file, or the id of a policy. */
const policyIn = (id: string): PolicyContent | string => (id.endsWith('.json') ? readPolicy(id) : id);

function readPolicy(file: string): PolicyContent {
  return toContent(readBody(CreatePolicyDto, readBodyFile(file)));
}

function scopeOf(text: string): LensScope {
  return chosen(LENS_SCOPES, text, `--scope must be ${LENS_SCOPES.join(' or ')}, not "${text}".`);
}

function listOf(text: string | undefined): string[] | undefined {
  return text?.split(',').map((item) => item.trim());
}

/** A line for an identity whose score or TCT differs; empty for any other. */
function diffRow(tris_id: string, { before, after, netBefore, netAfter }: Comparison, isCsv: boolean): string {
  if (before === after && netBefore === netAfter) return '';
  const [from, to] = [side(before, netBefore), side(after, netAfter)];
  const delta = (after - before) / 10;
  return isCsv
    ? `${[tris_id, ...Object.values(from), ...Object.values(to), delta].join(',')}\n`
    : `${JSON.stringify({ tris_id, before: from, after: to, delta })}\n`;
}

function renderSubjects(results: readonly EvaluatedSubjectDto[]): string {
  return table(
    results.map(({ tris_id, current, projected, delta, access }) => ({
      identity: tris_id,
      before: current ? `${current.score.toFixed(1)} ${current.score_rating}` : 'unknown',
      after: projected ? `${projected.score.toFixed(1)} ${projected.score_rating}` : 'unknown',
      change: delta ? signed(delta.score) : '',
      TCT: delta ? signed(delta.total_tct) : '',
      access: access
        .filter(({ before, after }) => before !== after)
        .map(({ policy_id, after }) => `${after ? 'gains' : 'loses'} ${policy_id}`)
        .join(', '),
    })),
  );
}
