import { Button, Group } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { get } from './api.ts';
import { Loaded } from './loading.tsx';

/** A list that the service answers a page at a time. More is loaded on request. */
export function Paged<T>(props: {
  path: string;
  parameters?: Record<string, string>;
  /** Of a page. */
  limit?: number;
  /** Where the entries are in an answer. */
  field: string;
  /** The entries, for "Loading …" and "Load more …". */
  what: string;
  /** In milliseconds. Absent: it is not asked for again. */
  every?: number;
  children: (entries: T[], hasMore: boolean) => ReactNode;
}) {
  const { path, parameters = {}, limit = 100, field, what, every = false, children } = props;
  const query = useInfiniteQuery({
    queryKey: ['pages', path, parameters],
    queryFn: ({ pageParam: cursor, signal }) =>
      get<Record<string, T[]> & { next_cursor: string | null }>(path, { ...parameters, limit, cursor }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
    refetchInterval: every,
    select: ({ pages }) => pages.flatMap((page) => page[field]!),
  });
  const { hasNextPage, isFetching, fetchNextPage } = query;
  return (
    <>
      <Loaded query={query} what={what}>
        {(entries) => children(entries, hasNextPage)}
      </Loaded>
      {hasNextPage && (
        <Group>
          <Button disabled={isFetching} onClick={() => void fetchNextPage()}>
            Load more {what}
          </Button>
        </Group>
      )}
    </>
  );
}
