import { useQuery, type UseQueryOptions } from '@tanstack/react-query';
import { get, type Parameters, type Schemas } from './api.ts';

/** The answer to a `GET`, of the schema `Name`, which is asked for once for all who show it. */
export function useGet<Name extends keyof Schemas>(
  path: string,
  parameters: Parameters = {},
  options: Omit<UseQueryOptions<Schemas[Name]>, 'queryKey' | 'queryFn'> = {},
) {
  return useQuery({
    queryKey: [path, parameters],
    queryFn: ({ signal }) => get<Schemas[Name]>(path, parameters, signal),
    ...options,
  });
}
