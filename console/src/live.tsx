import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { type Changes, get } from './api.ts';
import { count, score, Time } from './format.tsx';
import { Failure, Waiting } from './loading.tsx';
import { hrefOf } from './place.ts';

const PAGE = 1000;
const EVERY_MS = 2_000;
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

/** The feed of changes, polled with its cursor. */
export function LiveView() {
  const [isPaused, setIsPaused] = useState(false);
  const [filter, setFilter] = useState('');
  const [below, setBelow] = useState('');
  const feed = useRef(START);
  const query = useQuery({
    queryKey: ['changes'],
    queryFn: async ({ signal }) => (feed.current = await readOn(feed.current, signal)),
    refetchInterval: ({ state }) => (isPaused || state.error ? false : EVERY_MS),
    structuralSharing: false,
    gcTime: 0,
    staleTime: 0,
  });
  const { data, error, failureReason } = query;
  const limit = below === '' ? Infinity : Number(below);
  const rows = data?.rows.filter((row) => row.tris_id.includes(filter.trim()) && row.score < limit) ?? [];
  return (
    <>
      <h1>Live</h1>
      <p>
        Identities whose score has changed, the latest first. The feed starts with the last change of every identity;
        the latest {count(KEPT)} are kept here.
      </p>
      <form className="actions" onSubmit={(event) => event.preventDefault()}>
        <label>
          TRIS id contains{' '}
          <input type="search" value={filter} spellCheck={false} onChange={({ target }) => setFilter(target.value)} />
        </label>
        <label>
          Score below{' '}
          <input
            type="number"
            min={1}
            max={100}
            step={0.1}
            value={below}
            onChange={({ target }) => setBelow(target.value)}
          />
        </label>
        <button type="button" aria-pressed={isPaused} onClick={() => setIsPaused(!isPaused)}>
          {isPaused ? 'Continue' : 'Pause'}
        </button>
      </form>
      {error && <Failure error={error} retry={() => void query.refetch()} />}
      {!data && !error && <Waiting what="the feed" reason={failureReason} />}
      {data && (
        <>
          <p role="status" className="small">
            {count(data.read)} changes read, {count(rows.length)} shown{isPaused ? ', paused' : ''}.
          </p>
          {rows.length > 0 && (
            <div className="scroll" role="region" tabIndex={0} aria-label="Changes">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Identity</th>
                    <th scope="col" className="number">
                      Score
                    </th>
                    <th scope="col" className="number">
                      TCT
                    </th>
                    <th scope="col">Arrived</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row) => (
                    <tr key={row.position}>
                      <th scope="row">
                        <a href={hrefOf('identity', row.tris_id)}>{row.tris_id}</a>
                      </th>
                      <td className="number">{score(row.score)}</td>
                      <td className="number">{count(row.total_tct)}</td>
                      <td>{row.at === null ? 'earlier' : <Time value={row.at} />}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </>
      )}
    </>
  );
}

/** Reads the feed up to its end. */
async function readOn(feed: Feed, signal: AbortSignal): Promise<Feed> {
  let { cursor, hasCaughtUp, rows, read } = feed;
  for (;;) {
    const page = await get<Changes>('v1/disc/changes', { limit: PAGE, cursor }, signal);
    // After a change of the lens, all scores are read again.
    if (page.reset) [hasCaughtUp, rows, read] = [false, [], 0];
    const at = hasCaughtUp ? new Date().toISOString() : null;
    const fresh = page.changes.map((change) => ({ ...change, at })).reverse();
    const names = new Set(fresh.map(({ tris_id }) => tris_id));
    rows = [...fresh, ...rows.filter(({ tris_id }) => !names.has(tris_id))].slice(0, KEPT);
    read += fresh.length;
    cursor = page.next_cursor;
    if (fresh.length < PAGE) return { cursor, hasCaughtUp: true, rows, read };
  }
}
