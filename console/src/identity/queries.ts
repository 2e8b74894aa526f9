import { useQuery } from '@tanstack/react-query';
import { type Coordinates, get, type History } from '../api.ts';
import { client, queryOf } from '../queries.ts';
import { coordinatesOf } from '../place.ts';

const PAGE = 1000;

export const scorePath = (trisId: string, more = ''): string => `v1/disc/score/${encodeURIComponent(trisId)}${more}`;

const scoreQuery = (trisId: string, at: Coordinates) => queryOf<'ScoreDto'>(scorePath(trisId), { ...at });

/** A score. While it is being loaded at other coordinates, the one before stays. */
export const useScore = (trisId: string, coordinates: Coordinates) =>
  useQuery({ ...scoreQuery(trisId, coordinates), placeholderData: (previous) => previous });

/** All events behind a score, page by page. */
export const historyQuery = (trisId: string, coordinates: Coordinates) => ({
  queryKey: ['history', trisId, coordinates] as const,
  queryFn: ({ pageParam: cursor, signal }: { pageParam: string | undefined; signal: AbortSignal }) =>
    get<History>(scorePath(trisId, '/history'), { ...coordinates, limit: PAGE, cursor }, signal),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: ({ next_cursor }: History) => next_cursor ?? undefined,
});

/** Asks for what the page of an identity shows first, while its scripts are loaded. The page tells of a failure. */
export function askForIdentity(trisId: string, parameters: URLSearchParams): void {
  const coordinates = coordinatesOf(parameters);
  void client.prefetchQuery(scoreQuery(trisId, coordinates));
  void client.prefetchInfiniteQuery(historyQuery(trisId, coordinates));
}
