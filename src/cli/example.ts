import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { type CommandContext, internalActor } from '../commands/context.js';
import { CreateAccessPolicyDto, toAccessPolicy } from '../features/access/ap.dto.js';
import { CreateAccessPolicy } from '../features/access/ap.handlers.js';
import { CheckAccess, type CheckOfMany } from '../features/access/check.handlers.js';
import { ListDecisions } from '../features/access/decisions.handlers.js';
import type { GrantableStatus } from '../features/identity/domain/identity.js';
import { StateAboutIdentity } from '../features/identity/identity.handlers.js';
import { RegisterOrganization, SetVetting } from '../features/organizations/organizations.handlers.js';
import type { Reason } from '../features/relay/domain/relay.events.js';
import { externalStream } from '../features/relay/domain/relay.js';
import { RelayActions } from '../features/relay/relay.handlers.js';
import { MAX_ACTIONS, RelayActionDto, toAction } from '../features/relay/relay.dto.js';
import { SwitchPolicy } from '../features/validation-policies/promotions.js';
import { StartReplay } from '../features/validation-policies/replays.js';
import { CreatePolicyDto, toContent } from '../features/validation-policies/vp.dto.js';
import { CreatePolicy } from '../features/validation-policies/vp.handlers.js';
import { ChangeAction } from '../features/withdrawals/withdrawals.handlers.js';
import { readBody } from '../http/validation.js';
import { type Config, MODULES } from '../kernel/config.js';
import { hashOf } from '../kernel/hash.js';
import { replaceBySync } from '../kernel/replace-file.js';
import { StartError } from '../kernel/start-error.js';
import { storesExist } from '../stores/open.js';
import type { Host } from './cli.js';
import { commandOf } from './handlers.js';
import { ended } from './population-change.js';
import { showProgress } from './progress.js';
import { applyAll } from './read-models.js';

const ACTOR = 'cli:example';
const AUDITOR = internalActor(ACTOR, ['audit:read']);

/** examples/example-data.mjs: what is recorded. Beside the built code only. */
const DATA = new URL('../../../examples/example-data.mjs', import.meta.url);

interface ExampleData {
  organizations: { tris_org: string; platform_ids: string[]; vetted: boolean }[];
  actions(start: Date): object[];
  withdrawal: { platform_id: string; external_id: string; reason: Reason };
  validationPolicies: Record<'promoted' | 'replayed', { policy_id: string }>;
  accessPolicies: { owner: string | null; body: object }[];
  verifications: { tris_id: string; status: GrantableStatus; evidence_hash: string }[];
  checks: CheckOfMany[];
  description: string;
}

/** Kept in the folder from before its log is created. Times of actions follow from `started_at`, also after a kill. */
interface Marker {
  started_at: string;
  complete: boolean;
}

/**
 * Marks a folder without a log, which this process owns, as one of the example.
 * @returns records what is missing, with the commands that requests cause. Each is repeated without a second effect, so
 * that an interrupted recording is continued. Resolves to what there is, for a new user.
 * @throws StartError for a folder with other events, and where the example cannot be recorded
 */
export function openExample({ data, profile, modules }: Config): (host: Host) => Promise<string> {
  if (profile !== 'embedded') throw new StartError('Example data is for the embedded profile: unset CREDENCE_PROFILE.');
  if (modules.length < MODULES.length) {
    throw new StartError('Example data needs every module: unset CREDENCE_MODULES.');
  }
  const path = join(data, 'example.json');
  const isMarked = existsSync(path);
  if (!isMarked && storesExist(data)) {
    throw new StartError(
      `${data} has events that are not the example’s: start without --example, or name another folder with CREDENCE_DATA.`,
    );
  }
  const save = (marker: Marker) =>
    replaceBySync(path, `${path}.new`, () => writeFileSync(`${path}.new`, JSON.stringify(marker)));
  const marker: Marker = isMarked
    ? JSON.parse(readFileSync(path, 'utf8'))
    : { started_at: new Date().toISOString(), complete: false };
  if (!isMarked) save(marker);
  return async (host) => {
    const example = (await import(DATA.href)) as ExampleData;
    if (!marker.complete) {
      process.stderr.write(`Recording example data in ${data}\n`);
      await record(host, example, new Date(marker.started_at));
      save({ ...marker, complete: true });
    }
    return example.description;
  };
}

async function record({ get, stores, config }: Host, data: ExampleData, start: Date): Promise<void> {
  const commands = get(CommandBus);
  const queries = get(QueryBus);

  for (const body of data.organizations) {
    const { tris_org, platform_ids, vetted } = body;
    await commands.execute(new RegisterOrganization({ tris_org, platform_ids, context: once('register', body) }));
    await commands.execute(new SetVetting({ tris_org, vetted, context: once('vet', body) }));
  }

  const actions = data.actions(start).map((body) => toAction(readBody(RelayActionDto, body), Date.now()));
  await showProgress('Recording', 'actions', process.stderr, async (update) => {
    for (let done = 0; done < actions.length; done += MAX_ACTIONS) {
      update(done, actions.length);
      // Each is recognised by its external_id.
      const batch = { actions: actions.slice(done, done + MAX_ACTIONS), request: commandOf(ACTOR, {}) };
      const outcomes = await commands.execute(new RelayActions(batch));
      const refused = outcomes.find((outcome) => outcome instanceof Error);
      if (refused) throw refused;
    }
  });
  await applyAll(stores, config);

  const { platform_id, external_id, reason } = data.withdrawal;
  const [relayed] = await stores.eventStore.readStream(externalStream(platform_id, external_id), { limit: 1 });
  const change = { action_id: relayed!.id, to: 'withdrawn' as const, reason };
  await commands.execute(new ChangeAction({ ...change, context: once('withdraw', change) }));

  for (const body of Object.values(data.validationPolicies)) {
    const content = toContent(readBody(CreatePolicyDto, body));
    await commands.execute(new CreatePolicy({ content, context: once('vp', body) }));
  }
  for (const { owner, body } of data.accessPolicies) {
    const content = toAccessPolicy(readBody(CreateAccessPolicyDto, body));
    await commands.execute(new CreateAccessPolicy({ content, context: once('ap', body, owner) }));
  }
  const { promoted, replayed } = data.validationPolicies;
  const promotion = { policyId: promoted.policy_id, scope: 'organization' as const, how: { replayId: null } };
  const promoting = once('promote', { policy_id: promoted.policy_id });
  await commands.execute(new SwitchPolicy({ ...promotion, context: promoting }));

  for (const { tris_id, status, evidence_hash } of data.verifications) {
    const grant = { status, issuer: ACTOR, expires_at: null, evidence_hash };
    const statement = { trisId: tris_id, statement: { kind: 'grant' as const, grant } };
    await commands.execute(new StateAboutIdentity({ ...statement, context: once('grant', { tris_id, ...grant }) }));
  }

  await applyAll(stores, config);
  const of = { policyId: replayed.policy_id, scope: 'platform' as const };
  const context = once('replay', { policy_id: replayed.policy_id });
  await ended(await commands.execute(new StartReplay({ of, accessPolicies: undefined, context })), queries);

  for (const check of data.checks) {
    // One that granted would be made again once its token has expired, whatever its Idempotency-Key.
    const { policy_id, subject_tris: subject } = check;
    const { decisions } = await queries.execute(new ListDecisions({ policy_id, subject, limit: 1, actor: AUDITOR }));
    if (decisions.length > 0) continue;
    const request = { ...check, audience: null, target: null };
    await commands.execute(new CheckAccess({ request, context: once('check', request), hasWaited: true }));
  }
  await applyAll(stores, config);
}

/** A command that a repetition recognises. @param organization that it is sent for; null: the operators */
function once(what: string, body: object, organization: string | null = null): CommandContext {
  const command = commandOf(ACTOR, body);
  const actor = { ...command.actor, organization };
  return { ...command, actor, idempotency: hashOf('example', what, command.body_hash) };
}
