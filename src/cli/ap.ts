import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { SigningKeys } from '../credentials/signing-keys.js';
import { Config } from '../kernel/config.js';
import { Logger } from '../kernel/logger.js';
import { PublicAddress } from '../kernel/public-address.js';
import { readBody } from '../http/validation.js';
import { CreateAccessPolicyDto, toAccessPolicy } from '../features/access/ap.dto.js';
import {
  CreateAccessPolicy,
  GetAccessPolicy,
  ListAccessPolicies,
  RetireAccessPolicy,
} from '../features/access/ap.handlers.js';
import { CheckAccess } from '../features/access/check.handlers.js';
import { AccessPoliciesModule, AccessPolicyHandlersModule } from '../features/access/ap.module.js';
import { type AccessPolicyContent, hashed } from '../features/access/domain/access-policy.js';
import { readBodyFile } from './body-file.js';
import type { Cli, JsonOption } from './cli.js';
import { EXIT, checkedTrisId } from './exit.js';
import { type HandlersContext, OPERATOR, PAGE, allPages, changed, commandOf, withHandlers } from './handlers.js';
import { applyAll } from './read-models.js';
import { table } from './table.js';

const FEATURES = [AccessPolicyHandlersModule];
/** What a check needs besides: a grant comes with a token, which the keys of the service sign. */
const CHECKS = (config: Config): (Type | DynamicModule)[] => {
  const logger = new Logger('error');
  const { publicUrl, host, port } = config;
  const providers = [
    { provide: Config, useValue: config },
    { provide: Logger, useValue: logger },
    { provide: SigningKeys, useValue: new SigningKeys(config, logger) },
    { provide: PublicAddress, useValue: { url: publicUrl ?? `http://${host}:${port}` } },
  ];
  return [{ module: CheckPartsModule, global: true, providers, exports: providers }, AccessPoliciesModule];
};

@Module({})
class CheckPartsModule {}

export function apCommands(cli: Cli): void {
  const ap = cli.program.command('ap').description('list, create, retire and check access policies');

  ap.command('list')
    .description('list the policies by id')
    .option('--json', 'print the policies as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, list));

  ap.command('show')
    .description('show a policy with its rules, as JSON')
    .argument('<policy>', 'id of a policy')
    .action(withHandlers(cli, 'existing', FEATURES, show));

  ap.command('create <file>')
    .description('create a policy of the operators from a JSON file; safe to repeat')
    .action(withHandlers(cli, 'create', FEATURES, create, async (_, file: string) => ({ value: readPolicy(file) })));

  ap.command('retire')
    .description('retire a policy: it can no longer be checked')
    .argument('<policy>', 'id of a policy')
    .action(withHandlers(cli, 'existing', FEATURES, retire));

  ap.command('check')
    .description('check a subject by a policy; the decision is recorded. Exit code 1: denied')
    .argument('<policy>', 'id of a policy')
    .argument('<subject>', 'TRIS id of the subject')
    .option('--json', 'print the decision as JSON')
    .action(withHandlers(cli, 'existing', CHECKS, check));
}

async function list({ queries, print }: HandlersContext, { json }: JsonOption) {
  const policies = await allPages('policies', (cursor) =>
    queries.execute(new ListAccessPolicies({ limit: PAGE, cursor, caller: OPERATOR })),
  );
  const rows = policies.map(({ policy_id, status, tris_org, visibility, vp, ttl_seconds, created_at }) => ({
    policy: policy_id,
    status,
    owner: tris_org ?? 'the operators',
    rules: visibility,
    lens: vp ?? (tris_org === null ? 'of the platform' : 'of the owner'),
    'token s': ttl_seconds,
    created: created_at,
  }));
  print(json ? JSON.stringify(policies) : table(rows, 'no access policies'));
}

async function show({ queries, print }: HandlersContext, id: string) {
  print(JSON.stringify(await queries.execute(new GetAccessPolicy({ policy_id: id, caller: OPERATOR })), null, 2));
}

function readPolicy(file: string): AccessPolicyContent {
  return toAccessPolicy(readBody(CreateAccessPolicyDto, readBodyFile(file)));
}

async function create(context: HandlersContext<AccessPolicyContent>, _file: string) {
  const { value: content, actor, commands } = context;
  const command = new CreateAccessPolicy({ content, context: commandOf(actor, hashed(content)) });
  const { body, own } = await commands.execute(command);
  return changed(context, `${body.policy_id} ${own ? 'created' : 'exists'} ${body.content_hash}`);
}

async function retire(context: HandlersContext, id: string) {
  const command = commandOf(context.actor, { policy_id: id, retired: true });
  const { body } = await context.commands.execute(new RetireAccessPolicy({ policy_id: id, context: command }));
  return changed(context, `${body.policy_id} ${body.status}`);
}

async function check(context: HandlersContext, id: string, subject: string, { json }: JsonOption) {
  const { actor, commands, stores, config, print } = context;
  checkedTrisId(subject);
  await applyAll(stores, config);
  const request = { policy_id: id, subject_tris: subject, audience: null, target: null };
  const command = commandOf(actor, { ...request, at: Date.now() });
  const { body } = await commands.execute(new CheckAccess({ request, context: command, hasWaited: true }));
  await applyAll(stores, config);
  if (json) print(JSON.stringify(body));
  else {
    const score = body.score === null ? 'unknown' : `score ${body.score.toFixed(1)}`;
    print(`${subject} ${body.granted ? 'granted' : 'denied'} by ${id} (${score})`);
    for (const { pointer, rule, required, actual, outcome } of body.reasons) {
      print(`  ${pointer || rule}: ${outcome}, required ${required}, is ${actual ?? 'unknown'}`);
    }
    for (const { fact, required, actual, below, issuers, schemes } of body.how_to_pass) {
      const limit = below === undefined ? '' : ` and below ${below}`;
      const by = issuers ? ` by ${issuers.join(' or ')}` : '';
      const under = schemes ? ` under ${schemes.join(' or ')}` : '';
      print(`  would pass with ${fact} ${required ?? 'cleared'}${limit}${by}${under}, is ${actual ?? 'unknown'}`);
    }
  }
  return body.granted ? EXIT.ok : EXIT.finding;
}
