import { Inject, Injectable } from '@nestjs/common';
import { type LensRow, lensRow } from '../../../projections/lenses.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { BoundedMap } from '../../kernel/bounded-map.js';
import { Problem } from '../../kernel/problems.js';
import type { Views } from '../../read-side/views.js';
import type { Manifest, RowQuery } from '../../stores/ports/read-models.js';
import { type Lens, MODEL_LENS } from '../../scoring/lens.js';
import { type Scoring, modelOf, modelOrFirst, scoringBy } from '../../scoring/models/all.js';
import type { ModelId } from '../../scoring/models/scoring-model.js';
import { type Policy, VP_ID, lensOf, policyOf, policyStream } from './domain/validation-policy.js';

/** Lenses kept in memory at most; one of a policy with a hundred inputs takes about 20 kB. */
const CACHED_LENSES = 1_000;

/** Selects the lens of a request. Without either property: the platform's lens. */
export interface LensSelector {
  /** Id of a policy, or `model` for the model's own lens. Overrides everything. */
  vp?: string;
  /** The organization of the request's key: selects its own lens, if it has one. */
  organization?: string | null;
  /** Version of the scoring model. Default: the platform's. */
  model?: ModelId;
}

/** The value of `vp=` for the lens that weighs every action by its own criticality, whatever was promoted. */
export const MODEL_VP = 'model';

/** Lenses: of requests, and of validation policies by id, each read from its own stream, so always current. */
@Injectable()
export class Lenses {
  private readonly known = new BoundedMap<string, Lens>(CACHED_LENSES);

  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** @param limit number of its events that are read; default: all @throws Problem policy_not_found, history_unreadable */
  async policy(policyId: string, limit?: number): Promise<Policy> {
    const history = VP_ID.test(policyId) ? await this.store.readStream(policyStream(policyId), { limit }) : [];
    const policy = policyOf(history);
    if (!policy) throw unknownPolicy(policyId);
    return policy;
  }

  /** The lens of a policy, even a retired one, so that old scores can be explained. @throws Problem policy_not_found */
  async of(policyId: string): Promise<Lens> {
    const kept = this.known.get(policyId);
    if (kept) return kept;
    // The first event contains the content, which never changes. Later events do not affect scores.
    const lens = lensOf(await this.policy(policyId, 1));
    this.known.set(policyId, lens);
    return lens;
  }

  /** Rows to read together with the data, so that data and lens belong to the same position. */
  queries({ vp, organization }: LensSelector): RowQuery[] {
    return vp === undefined && organization ? [{ get: lensRow(organization) }] : [];
  }

  /** @param rows results of `queries` @throws Problem policy_not_found for an unknown `vp` */
  async resolve({ vp, model }: LensSelector, manifest: Manifest, rows: readonly unknown[]): Promise<Scoring> {
    const own = rows[0] as LensRow | undefined;
    const policyId = vp ?? (own ?? manifest.lens).policy_id ?? MODEL_VP;
    const lens = policyId === MODEL_VP ? MODEL_LENS : await this.of(policyId);
    return scoringBy(lens, model ? modelOf(model) : modelOrFirst(manifest.model_hash));
  }

  /**
   * The lens of a selector, for what reads no other rows with it.
   * @returns with the manifest that the lens was read with; `isOwn`: the organization has promoted it
   * @throws Problem policy_not_found, projection_rebuilding
   */
  async current(selector: LensSelector, views: Views): Promise<{ lens: Scoring; manifest: Manifest; isOwn: boolean }> {
    const queries = this.queries(selector);
    const { manifest, results } =
      queries.length > 0 ? await views.read(queries) : { manifest: await views.manifest(), results: [] };
    const lens = await this.resolve(selector, manifest, results);
    return { lens, manifest, isOwn: results[0] !== undefined };
  }
}

export function unknownPolicy(policyId: string): Problem {
  return new Problem('policy_not_found', `There is no validation policy ${policyId}.`);
}
