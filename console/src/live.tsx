import { Button, Group, Paper, Stack, Text, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useRef, useState } from 'react';
import { ApiError, followChanges, get, type LiveEvent, type Schemas } from './api.ts';
import { NumberField } from './form.tsx';
import { count, linkTo, score, Time } from './format.tsx';
import { Loaded } from './loading.tsx';
import { client } from './queries.ts';
import { Rows } from './table.tsx';

const PAGE = 1000;
/** While there is no stream. */
const EVERY_MS = 2_000;
/** After a stream has ended, the next one is tried. */
const AGAIN_MS = 15_000;
/** More are forgotten, so that a tab that stays open does not grow. */
const KEPT = 200;

interface Row {
  tris_id: string;
  score: number;
  total_tct: number;
  position: string;
  /** When it arrived; null if it had changed before the view was opened. */
  at: string | null;
}

/** Where the feed has been read to, and the latest changes, the last one first. */
interface Feed {
  cursor: string | undefined;
  hasCaughtUp: boolean;
  rows: readonly Row[];
  read: number;
}
const START: Feed = { cursor: undefined, hasCaughtUp: false, rows: [], read: 0 };

const KEY = ['changes'];

/** The feed of changes: read to its end, then followed as a stream; polled with its cursor while there is no stream. */
export function LiveView() {
  const [isPaused, setIsPaused] = useState(false);
  const [isStreaming, setIsStreaming] = useState(false);
  const [filter, setFilter] = useState('');
  const [below, setBelow] = useState<number | null>(null);
  const feed = useRef(START);
  const query = useQuery({
    queryKey: KEY,
    queryFn: async ({ signal }) => (feed.current = await readOn(feed.current, signal)),
    refetchInterval: ({ state }) => (isPaused || isStreaming || isRefusal(state.error) ? false : EVERY_MS),
    structuralSharing: false,
    gcTime: 0,
    staleTime: 0,
  });
  const { data } = query;
  const show = useCallback((next: Feed) => client.setQueryData(KEY, (feed.current = next)), []);
  // It is followed again once it has been read to its end.
  const readAgain = useCallback(() => {
    show(START);
    void client.refetchQueries({ queryKey: KEY });
  }, [show]);
  const isReady = data?.hasCaughtUp === true && !isPaused;
  useEffect(() => {
    if (!isReady) return undefined;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const follow = async () => {
      setIsStreaming(true);
      await client.cancelQueries({ queryKey: KEY });
      const outcome = await followStream(feed, show, stop.signal);
      if (stop.signal.aborted) return;
      setIsStreaming(false);
      if (outcome === 'reset') readAgain();
      else timer = setTimeout(() => void follow(), AGAIN_MS);
    };
    void follow();
    return () => {
      stop.abort();
      clearTimeout(timer);
      setIsStreaming(false);
    };
  }, [isReady, show, readAgain]);
  const rows = data?.rows.filter((row) => row.tris_id.includes(filter.trim()) && row.score < (below ?? Infinity)) ?? [];
  return (
    <Stack>
      <Title order={1}>Live</Title>
      <Text c="dimmed">
        Identities whose score has changed, the latest first. The feed starts with the last change of every identity;
        the latest {count(KEPT)} are kept here.
      </Text>
      <Paper component={Stack} gap="sm" withBorder p="md">
        <Group align="flex-end">
          <TextInput
            label="TRIS id contains"
            type="search"
            value={filter}
            spellCheck={false}
            onChange={({ target }) => setFilter(target.value)}
          />
          <NumberField label="Score below" min={1} max={100} step={0.1} value={below} onChange={setBelow} />
          <Button size="sm" aria-pressed={isPaused} onClick={() => setIsPaused(!isPaused)}>
            {isPaused ? 'Continue' : 'Pause'}
          </Button>
        </Group>
        <Loaded query={query} what="the feed">
          {({ read }) => (
            <>
              <Text role="status" size="sm" c="dimmed">
                {count(read)} changes read, {count(rows.length)} shown
                {isPaused ? ', paused' : isStreaming ? ', followed live' : ''}.
              </Text>
              <Rows
                caption="Changes"
                most={KEPT}
                empty="No identity that is asked for has changed."
                head={['Identity', 'Score', 'TCT', 'Arrived']}
                rows={rows.map((row) => [
                  linkTo('identity', row.tris_id),
                  score(row.score),
                  count(row.total_tct),
                  row.at === null ? 'earlier' : <Time key="at" value={row.at} />,
                ])}
              />
            </>
          )}
        </Loaded>
      </Paper>
    </Stack>
  );
}

/** Refused for good: only the reader can change that. */
function isRefusal(error: Error | null): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
}

/** Follows the feed from where it was read to, until the stream ends or is silent. */
async function followStream(
  feed: { current: Feed },
  show: (feed: Feed) => void,
  signal: AbortSignal,
): Promise<'ended' | 'reset'> {
  const own = new AbortController();
  let outcome: 'ended' | 'reset' = 'ended';
  const arrived = (events: readonly LiveEvent[]) => {
    if (signal.aborted || outcome === 'reset') return;
    if (events.some(({ type }) => type === 'reset')) {
      outcome = 'reset';
      return own.abort();
    }
    const at = new Date().toISOString();
    const changes = events.flatMap((event) => (event.type === 'change' ? event.data : []));
    const cursor = events.at(-1)?.id ?? feed.current.cursor;
    if (changes.length > 0) show({ ...withRows(feed.current, changes, at), cursor });
    else feed.current = { ...feed.current, cursor };
  };
  try {
    await followChanges(feed.current.cursor, arrived, AbortSignal.any([signal, own.signal]));
  } catch {
    // Whatever the reason: the feed is polled meanwhile, and says what is wrong.
  }
  return outcome;
}

/** The feed with more changes, each identity once, the latest first. */
function withRows(feed: Feed, changes: Schemas['ChangesDto']['changes'], at: string | null): Feed {
  const names = new Set<string>();
  const rows = [...changes.map((change) => ({ ...change, at })).reverse(), ...feed.rows].filter(
    ({ tris_id }) => !names.has(tris_id) && names.add(tris_id),
  );
  return { ...feed, rows: rows.slice(0, KEPT), read: feed.read + changes.length };
}

/** Reads the feed up to its end. */
async function readOn(feed: Feed, signal: AbortSignal): Promise<Feed> {
  let next = feed;
  for (;;) {
    const page = await get<Schemas['ChangesDto']>('v1/disc/changes', { limit: PAGE, cursor: next.cursor }, signal);
    // After a change of the lens, all scores are read again.
    if (page.reset) next = START;
    const at = next.hasCaughtUp ? new Date().toISOString() : null;
    next = { ...withRows(next, page.changes, at), cursor: page.next_cursor };
    // Under a policy's lens a page can end before its limit.
    if (page.changes.length === 0) return { ...next, hasCaughtUp: true };
  }
}
