import {
  type Check,
  defineEvent,
  listOf,
  nullable,
  number,
  oneOf,
  shaped,
  text,
} from '../../../kernel/event-definition.js';
import { CRITICALITIES, type Criticality } from '../../../scoring/model.js';
import { MODEL_IDS } from '../../../scoring/models/all.js';
import type { ModelId } from '../../../scoring/models/scoring-model.js';

/** An input of a policy: a canonical metric, and the weight of its criticality. */
export type PolicyInput = { metric: string; criticality: Criticality; weight: number };
/** Declared by the owner. */
export type PolicyMetadata = { total_weight: number; visibility: 'public'; version: string };
/**
 * Identifies a lens: its policy and the hash of its content. Without a policy it is the model's own lens; for an
 * organization, without policy and hash, it is the lens of the platform.
 */
export type LensName = { policy_id: string | null; content_hash: string | null };

const inputs: Check<PolicyInput[]> = listOf(
  shaped({ metric: text, criticality: oneOf(CRITICALITIES), weight: number }),
);
const metadata: Check<PolicyMetadata> = shaped({ total_weight: number, visibility: oneOf(['public']), version: text });
const lensName: Check<LensName> = shaped({ policy_id: nullable(text), content_hash: nullable(text) });

/** A complete policy, which never changes. Stream `vp-<policy_id>`, revision 0. */
export const validationPolicyCreated = defineEvent(
  'ValidationPolicyCreated',
  {
    policy_id: text,
    tris_org: text,
    inputs,
    metadata,
    /** SHA-256 of the RFC 8785 JSON of the four fields above. */
    content_hash: text,
    /** The metrics of the inputs as the owner wrote them, such as with an alias of the category. */
    names: listOf(text),
  },
  {
    schema: 2,
    upcasters: {
      // This schema recorded canonical names only.
      1: (data) => ({ ...data, names: (data['inputs'] as PolicyInput[]).map(({ metric }) => metric) }),
    },
  },
);

/** The policy can no longer be promoted. Same stream. */
export const validationPolicyRetired = defineEvent('ValidationPolicyRetired', { policy_id: text, tris_org: text });

export const LENS_SCOPES = ['platform', 'organization'] as const;
export type LensScope = (typeof LENS_SCOPES)[number];

/** The platform, or an organization, uses this lens from now on. Stream `lens-platform` or `lens-<tris_org>`. */
export const lensActivated = defineEvent('LensActivated', {
  scope: oneOf(LENS_SCOPES),
  /** The organization; null for the platform. */
  tris_org: nullable(text),
  reason: oneOf(['promoted', 'rolled_back']),
  policy_id: nullable(text),
  content_hash: nullable(text),
  /** The replay over the population that the decision was based on. */
  replay_id: nullable(text),
  /** The lens that was active before. */
  previous: lensName,
});

/** A version of the scoring model, by name. */
export type ModelName = { id: ModelId; hash: string };
const modelName: Check<ModelName> = shaped({ id: oneOf(MODEL_IDS), hash: text });

/**
 * The platform computes by this version of the scoring model from now on. Stream `lens-platform`, so that it conflicts
 * with a concurrent switch of the platform's lens.
 */
export const modelActivated = defineEvent('ModelActivated', {
  reason: oneOf(['promoted', 'rolled_back']),
  model: modelName,
  /** The replay over the population that the decision was based on. */
  replay_id: nullable(text),
  /** The version that was active before. */
  previous: modelName,
});
