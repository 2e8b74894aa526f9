import { disc1 } from './disc-1.js';
import { disc2 } from './disc-2.js';
import type { ScoringModel } from './scoring-model.js';

/** Every version of the scoring model, the oldest first. */
export const MODELS: readonly ScoringModel[] = [disc1, disc2];
