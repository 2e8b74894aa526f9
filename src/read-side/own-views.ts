import type { Projection } from '../../projections/projection.js';
import { PROJECTIONS } from './all-projections.js';

/** Views by name, in the version of their fold, as a generation lists them. */
type Views = Record<string, number>;

/** The views that these projections fold. */
export function viewsOf(projections: readonly Projection[]): Views {
  return Object.fromEntries(projections.map(({ name, version }) => [name, version]));
}

/** The projections that fold these views. */
export function projectionsOf(views: Views): readonly Projection[] {
  return PROJECTIONS.filter(({ name }) => name in views);
}

/** The versions of this build's folds, by view. */
export const OWN_VERSIONS: ReadonlyMap<string, number> = new Map(Object.entries(viewsOf(PROJECTIONS)));
