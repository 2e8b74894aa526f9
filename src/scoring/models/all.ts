import type { Lens } from '../lens.js';
import { disc1 } from './disc-1.js';
import { disc2 } from './disc-2.js';
import type { ModelId, ScoringModel } from './scoring-model.js';

/** Every version of the scoring model, the oldest first. */
export const MODELS: readonly ScoringModel[] = [disc1, disc2];
export const MODEL_IDS = MODELS.map(({ id }) => id);

/** The version with an id. */
export function modelOf(id: ModelId): ScoringModel {
  return MODELS.find((model) => model.id === id)!;
}

/** The version with a hash; undefined if this build does not know it. */
export function modelByHash(hash: string): ScoringModel | undefined {
  return MODELS.find((model) => model.hash === hash);
}

/** The model with this hash, or the first one if this build does not know the hash. */
export function modelOrFirst(hash: string): ScoringModel {
  return modelByHash(hash) ?? disc1;
}

/** A lens and the version of the model: with the evidence and a time they determine every number. */
export interface Scoring extends Lens {
  model: ScoringModel;
}

/** Whether the actions of a day can earn only so much. */
export function isLimited(lens: Scoring): boolean {
  return lens.model.earnedPerDay(lens) !== Infinity;
}

const made = new WeakMap<Lens, Map<ModelId, Scoring>>();

/** Returns the same object for the same lens and version, so that it can be the key of a cache. */
export function scoringBy(lens: Lens, model: ScoringModel): Scoring {
  let own = made.get(lens);
  if (!own) made.set(lens, (own = new Map()));
  let scoring = own.get(model.id);
  if (!scoring) own.set(model.id, (scoring = { ...lens, model }));
  return scoring;
}
