import { QueryClient, useQuery, type UseQueryOptions } from '@tanstack/react-query';
import { type ApiError, get, type Parameters, type Schemas } from './api.ts';

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      refetchOnWindowFocus: false,
      // A refusal stays one, unless the service says when to ask again.
      retry: (failures, error) => failures < 4 && [0, 429, 503].includes((error as ApiError).status),
      retryDelay: (failures, error) => (error as ApiError).retryAfter ?? Math.min(500 * 2 ** failures, 8_000),
      // A browser that is offline can still reach a service on its own machine.
      networkMode: 'always',
    },
  },
});

/** The query for the answer to a `GET`, of the schema `Name`. */
export const queryOf = <Name extends keyof Schemas>(path: string, parameters: Parameters = {}) => ({
  queryKey: [path, parameters] as const,
  queryFn: ({ signal }: { signal: AbortSignal }) => get<Schemas[Name]>(path, parameters, signal),
});

/** The answer to a `GET`, of the schema `Name`, which is asked for once for all who show it. */
export const useGet = <Name extends keyof Schemas>(
  path: string,
  parameters: Parameters = {},
  options: Omit<UseQueryOptions<Schemas[Name]>, 'queryKey' | 'queryFn'> = {},
) => useQuery({ ...queryOf<Name>(path, parameters), ...options });
