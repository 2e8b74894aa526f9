import { canonicalJson, sha256Hex } from '../kernel/hash.js';
import { Problem } from '../kernel/problems.js';
import { ListAccessPolicies } from '../features/access/ap.handlers.js';
import { AccessPolicies } from '../features/access/access-policies.js';
import { AccessProbes } from '../features/access/access-probes.js';
import { Replays } from '../features/validation-policies/replays.js';
import type { AccessChangeDto, ReplayResultDto, SummaryDto } from '../features/validation-policies/vp.dto.js';
import { type LensOwner, PLATFORM, lensOwner, lensStackOf, lensStream } from '../features/lenses/domain/lens-stream.js';
import type { LensScope } from '../features/lenses/domain/lenses.events.js';
import { lensOf } from '../features/lenses/domain/validation-policy.js';
import { Lenses } from '../features/lenses/lenses.js';
import { Views } from '../read-side/views.js';
import type { Lens } from '../scoring/lens.js';
import { RATINGS } from '../scoring/model.js';
import { modelOrFirst, scoringBy } from '../scoring/models/all.js';
import { type HandlersContext, OPERATOR, PAGE, allPages } from './handlers.js';
import type { PolicyFile } from './policy-files.js';

/** What is to be done so that the log has the policies of the files, and what that changes for all identities. */

export type PlannedFile = PolicyFile & { state: 'new' | 'unchanged' | 'changed' | 'retired' };
type OfKind<K extends PolicyFile['kind']> = Extract<PlannedFile, { kind: K }>;

/** Of the lens of an owner. `before`: the policy that is it now; null: the model's own, or for an organization the platform's. */
export type Promotion = LensOwner & { file: OfKind<'vp'>; before: string | null };

export interface Plan {
  /** SHA-256 over the files, and over what the log has of them: policies, lenses and the version of the model. */
  hash: string;
  files: PlannedFile[];
  /** Policies to create. An access policy may name a validation policy, and comes after these. */
  created: PlannedFile[];
  /** Lenses to switch: those of organizations, then the platform's. */
  promotions: Promotion[];
  /** Why it cannot be applied, as `<file>:<line>:<column>: <message>`. */
  refusals: string[];
}

/** Compares the files with the log. The read models must be up to date. */
export async function planOf(context: HandlersContext, files: readonly PolicyFile[]): Promise<Plan> {
  const planned: PlannedFile[] = [];
  const refusals: string[] = [];
  const inFiles = new Set(files.map(({ policy_id }) => policy_id));
  for (const file of files) {
    const { policy_id } = file;
    const stored = await storedPolicy(context, file);
    const isChanged = stored && stored.content_hash !== file.content_hash;
    const state = !stored ? 'new' : isChanged ? 'changed' : stored.retired ? 'retired' : 'unchanged';
    planned.push({ ...file, state });
    if (isChanged) {
      const next = policy_id.replace(/\d+$/, (version) => String(Number(version) + 1));
      const how = `A policy cannot be changed; use a new version, such as ${next}, in a separate file.`;
      refusals.push(`${file.places.policy_id}: ${policy_id} exists with other content. ${how}`);
    }
    if (file.kind === 'vp' || file.content.vp === null || inFiles.has(file.content.vp)) continue;
    if (await orNull(context.get(Lenses).of(file.content.vp))) continue;
    refusals.push(`${file.places.vp}: There is no validation policy ${file.content.vp}, neither stored nor in a file.`);
  }

  // An organization that has promoted no lens uses the platform's.
  const lenses = [{ whose: 'platform', active: await activePolicy(context, PLATFORM) }];
  const promotions: Promotion[] = [];
  const wishes = planned.flatMap((file) => (file.kind === 'vp' && file.promote ? [{ file, scope: file.promote }] : []));
  wishes.sort((a, b) => LENS_ORDER.indexOf(a.scope) - LENS_ORDER.indexOf(b.scope));
  for (const { file, scope } of wishes) {
    const owner = lensOwner(scope, file.content.tris_org);
    const before = await activePolicy(context, owner);
    if (owner.scope === 'organization') lenses.push({ whose: owner.tris_org, active: before });
    if (before === file.policy_id) continue;
    promotions.push({ ...owner, file, before });
    if (file.state === 'retired') {
      refusals.push(`${file.places.promote}: ${file.policy_id} is retired and cannot be promoted.`);
    }
  }

  const listed = await allPages('policies', (cursor) =>
    context.queries.execute(new ListAccessPolicies({ limit: PAGE, cursor, caller: OPERATOR })),
  );
  const hashed = {
    files: planned
      .map((file) => {
        const { policy_id, content_hash, state } = file;
        return { policy_id, content_hash, promote: file.kind === 'vp' ? file.promote : null, state };
      })
      .sort((a, b) => (a.policy_id < b.policy_id ? -1 : 1)),
    lenses: lenses.sort((a, b) => (a.whose < b.whose ? -1 : 1)),
    access: listed.map(({ policy_id, status }) => ({ policy_id, status })),
    model: modelOrFirst((await context.get(Views).manifest()).model_hash).hash,
  };
  const ofKind = (kind: string) => planned.filter((file) => file.state === 'new' && file.kind === kind);
  const created = [...ofKind('vp'), ...ofKind('ap')];
  return { hash: sha256Hex(canonicalJson(hashed)), files: planned, created, promotions, refusals };
}

/** The platform's last, so that it does not affect organizations whose lens is also switched. */
const LENS_ORDER: readonly LensScope[] = ['organization', 'platform'];

/** The policy that is the lens of an owner, read from the log; null if none was promoted. */
export async function activePolicy({ stores }: HandlersContext, owner: LensOwner) {
  return lensStackOf(await stores.eventStore.readStream(lensStream(owner)), owner).at(-1)!.policy_id;
}

async function storedPolicy({ get }: HandlersContext, { kind, policy_id }: PolicyFile) {
  return orNull<{ content_hash: string; retired: boolean }>(
    kind === 'vp' ? get(Lenses).policy(policy_id) : get(AccessPolicies).get(policy_id),
  );
}

async function orNull<T>(policy: Promise<T>): Promise<T | null> {
  try {
    return await policy;
  } catch (error) {
    if (error instanceof Problem && error.code === 'policy_not_found') return null;
    throw error;
  }
}

/** What the plan changes for all identities. */
export interface Preview {
  promotions: {
    scope: LensScope;
    tris_org: string | null;
    /** Identities whose rating rises or falls. */
    ratings: { up: number; down: number };
    change: ReplayResultDto;
  }[];
  /** The new access policies, and those whose checks use a lens that is switched. */
  access: ReturnType<typeof accessOf>[];
}

/** Passes over all identities once for each lens that is switched, and for the new access policies. */
export async function previewOf(
  context: HandlersContext,
  plan: Plan,
  onPage: (done: number, total: number) => void,
): Promise<Preview> {
  const lenses = context.get(Lenses);
  const replays = context.get(Replays);
  const probes = context.get(AccessProbes);
  const signal = context.interruption();
  const lensOfFile = ({ content, content_hash }: OfKind<'vp'>) => lensOf({ ...content, content_hash });
  const lens = async (id: string): Promise<Lens> => {
    const planned = plan.files.find(({ policy_id }) => policy_id === id);
    return planned?.kind === 'vp' ? lensOfFile(planned) : lenses.of(id);
  };
  const created = plan.created.filter((file) => file.kind === 'ap');
  const isNew = new Set(created.map(({ policy_id }) => policy_id));
  const ofNew = await probes.probesOf(
    await Promise.all(
      created.map(async ({ content: { policy_id, rules, vp } }) => ({
        policy_id,
        rules,
        lens: vp === null ? null : await lens(vp),
      })),
    ),
  );

  const result: Preview = { promotions: [], access: [] };
  const seen = new Set<string>();
  const switches: (LensOwner & { file?: OfKind<'vp'> })[] = [...plan.promotions];
  // New access policies are the operators', whose lens is the platform's.
  if (ofNew.length > 0 && switches.every(({ scope }) => scope !== 'platform')) switches.push(PLATFORM);
  for (const owner of switches) {
    const { file, scope, tris_org } = owner;
    const { lens: before, manifest } = await lenses.current({ organization: tris_org }, context.get(Views));
    const after = file ? scoringBy(lensOfFile(file), before.model) : before;
    const stored = file ? await probes.probes(owner) : [];
    const affected = stored.filter((probe) => probe.lens === null && !seen.has(probe.policy_id));
    for (const { policy_id } of affected) seen.add(policy_id);
    const all = [...affected, ...(scope === 'platform' ? ofNew : [])];
    const change = await replays.between(before, after, manifest, all, signal, { onPage });
    for (const row of change.access) result.access.push(accessOf(row, isNew.has(row.policy_id)));
    if (file) result.promotions.push({ scope, tris_org, ratings: ratingsOf(change.rating_moves), change });
  }
  return result;
}

/** Identities that pass an access policy before and after; null: the policy is new. */
function accessOf({ policy_id, granted_before, granted_after, gained, lost }: AccessChangeDto, isNew: boolean) {
  const before = isNew
    ? { pass_before: null, gained: null, lost: null }
    : { pass_before: granted_before, gained, lost };
  return { policy_id, ...before, pass_after: granted_after };
}

function ratingsOf(moves: SummaryDto['rating_moves']): { up: number; down: number } {
  const ratings = { up: 0, down: 0 };
  for (const [i, from] of RATINGS.entries()) {
    for (const [j, to] of RATINGS.entries()) {
      if (j > i) ratings.up += moves[from][to];
      if (j < i) ratings.down += moves[from][to];
    }
  }
  return ratings;
}
