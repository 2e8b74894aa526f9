import type { Coordinates } from '../api.ts';
import { useGet } from '../use-get.ts';

export const scorePath = (trisId: string, more = ''): string => `v1/disc/score/${encodeURIComponent(trisId)}${more}`;

/** A score. While it is being loaded at other coordinates, the one before stays. */
export const useScore = (trisId: string, coordinates: Coordinates) =>
  useGet<'ScoreDto'>(scorePath(trisId), { ...coordinates }, { placeholderData: (previous) => previous });
