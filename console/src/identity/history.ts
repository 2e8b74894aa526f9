import { useInfiniteQuery } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import type { Coordinates, History, HistoryEntry } from '../api.ts';
import { historyQuery } from './queries.ts';

/** More pages are loaded on request only. */
const PAGES_AT_ONCE = 50;

/** Events in log order, by columns. */
export interface Events {
  entries: HistoryEntry[];
  /**
   * For drawing, ascending: the number of the event, or its time in seconds: when it occurred, or the latest event before it
   * in the log, if that is later.
   */
  places: number[];
  scores: number[];
  /** Net TCT. */
  tct: number[];
  /** Events that occurred before one that precedes them in the log. */
  late: number;
}

/** What the line shows. */
export type Series = 'score' | 'tct' | 'reliability';

/** What the horizontal axis of the line shows. */
export type Axis = 'time' | 'number';

/** In seconds. Parsing them costs the most, and all pages are put together again with each one that arrives. */
const times = new WeakMap<History, number[]>();

function timesOf(page: History): number[] {
  let known = times.get(page);
  if (!known) times.set(page, (known = page.entries.map(({ occurred_at }) => Date.parse(occurred_at) / 1000)));
  return known;
}

export function toEvents(pages: readonly History[], axis: Axis): Events {
  const events: Events = { entries: [], places: [], scores: [], tct: [], late: 0 };
  let latest = -Infinity;
  for (const page of pages) {
    const times = timesOf(page);
    for (const [i, entry] of page.entries.entries()) {
      const time = times[i]!;
      if (time < latest) events.late++;
      latest = Math.max(latest, time);
      events.entries.push(entry);
      events.scores.push(entry.score);
      events.tct.push(entry.total_tct);
      events.places.push(axis === 'time' ? latest : events.entries.length);
    }
  }
  return events;
}

/** All events behind a score, loaded page by page. */
export function useEvents(trisId: string, coordinates: Coordinates, axis: Axis) {
  const query = useInfiniteQuery({ ...historyQuery(trisId, coordinates), placeholderData: (previous) => previous });
  const { data, hasNextPage, isFetching, isPlaceholderData, error, fetchNextPage } = query;
  const pages = data?.pages.length ?? 0;
  useEffect(() => {
    if (hasNextPage && !isFetching && !isPlaceholderData && !error && pages < PAGES_AT_ONCE) void fetchNextPage();
  }, [hasNextPage, isFetching, isPlaceholderData, error, pages, fetchNextPage]);
  const events = useMemo(() => (data ? toEvents(data.pages, axis) : undefined), [data, axis]);
  return { ...query, events };
}

/** What an event changed, in words. */
export function describe({ entries }: Events, index: number): { what: string; from: number | null; to: number } {
  const { event_type, metric, score } = entries[index]!;
  const before = entries[index - 1]?.score ?? null;
  return { what: metric ?? inWords(event_type), from: before, to: score };
}

/** `BadStatusSet` as "bad status set". */
const inWords = (type: string): string => type.replace(/(?!^)[A-Z]/g, ' $&').toLowerCase();
