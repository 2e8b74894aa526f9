import { useQuery } from '@tanstack/react-query';
import { type Coordinates, get, type Score } from '../api.ts';

export const scorePath = (trisId: string, more = ''): string => `v1/disc/score/${encodeURIComponent(trisId)}${more}`;

/** A score. While it is being loaded at other coordinates, the one before stays. */
export function useScore(trisId: string, coordinates: Coordinates) {
  return useQuery({
    queryKey: ['score', trisId, coordinates],
    queryFn: ({ signal }) => get<Score>(scorePath(trisId), { ...coordinates }, signal),
    placeholderData: (previous) => previous,
  });
}
