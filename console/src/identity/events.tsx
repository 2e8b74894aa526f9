import { useMemo, useState } from 'react';
import { count, score, signed, Time } from '../format.tsx';
import { Head } from '../head.tsx';
import { Region } from '../region.tsx';
import { describe, type Events } from './history.ts';

const ROWS = 25;

/** Everything that is known about one event. */
export function EventDetails({ events, index }: { events: Events; index: number }) {
  const entry = events.entries[index]!;
  const { what, from, to } = describe(events, index);
  return (
    <section className="card" aria-labelledby="event-title">
      <h3 id="event-title">{what}</h3>
      <dl className="details">
        <dt>Score</dt>
        <dd>
          {from === null ? 'first event, ' : `${score(from)} → `}
          {score(to)} ({entry.score_rating})
        </dd>
        <dt>Net TCT</dt>
        <dd>
          {signed(entry.tct_delta, count)}, then {count(entry.total_tct)} in total
        </dd>
        {entry.platform_id !== null && (
          <>
            <dt>Platform</dt>
            <dd>{entry.platform_id}</dd>
          </>
        )}
        {entry.counterparty !== undefined && (
          <>
            <dt>Counterparty</dt>
            <dd>{entry.counterparty}</dd>
          </>
        )}
        {entry.source !== undefined && (
          <>
            <dt>Source</dt>
            <dd>{entry.source}: its organization was not vetted when it was recorded</dd>
          </>
        )}
        <dt>Occurred</dt>
        <dd>
          <Time value={entry.occurred_at} /> <small>{entry.occurred_at}</small>
        </dd>
        <dt>Recorded</dt>
        <dd>
          <Time value={entry.recorded_at} /> <small>{entry.recorded_at}</small>
        </dd>
        <dt>Event</dt>
        <dd>
          <code>{entry.event_type}</code> <code>{entry.event_id}</code>
        </dd>
        <dt>Position</dt>
        <dd>
          <code>{entry.position}</code>
        </dd>
      </dl>
    </section>
  );
}

/** Events with the latest first, a page at a time. */
export function EventTable(props: { events: Events; selected: number; onSelect: (index: number) => void }) {
  const { events, selected, onSelect } = props;
  const [page, setPage] = useState(0);
  const [onlyFlags, setOnlyFlags] = useState(false);
  const chosen = useMemo(() => {
    const indices: number[] = [];
    for (let i = events.entries.length - 1; i >= 0; i--) {
      if (!onlyFlags || events.entries[i]!.tct_delta < 0) indices.push(i);
    }
    return indices;
  }, [events, onlyFlags]);
  const pages = Math.max(1, Math.ceil(chosen.length / ROWS));
  const current = Math.min(page, pages - 1);
  return (
    <>
      <p className="actions">
        <label>
          <input type="checkbox" checked={onlyFlags} onChange={({ target }) => setOnlyFlags(target.checked)} /> Only
          forfeits
        </label>
        <button type="button" disabled={current === 0} onClick={() => setPage(current - 1)}>
          Later
        </button>
        <span>
          Page {count(current + 1)} of {count(pages)}
        </span>
        <button type="button" disabled={current === pages - 1} onClick={() => setPage(current + 1)}>
          Earlier
        </button>
      </p>
      <Region label="List of events">
        <table className="events">
          <Head columns={['Occurred', 'Event', 'Platform', 'Net TCT', 'Score']} numbers={['Net TCT', 'Score']} />
          <tbody>
            {chosen.slice(current * ROWS, (current + 1) * ROWS).map((index) => {
              const entry = events.entries[index]!;
              return (
                <tr key={entry.event_id} className={index === selected ? 'selected' : ''}>
                  <td>
                    <Time value={entry.occurred_at} />
                  </td>
                  <th scope="row">
                    <button type="button" className="link" onClick={() => onSelect(index)}>
                      {describe(events, index).what}
                    </button>
                  </th>
                  <td>{entry.platform_id}</td>
                  <td data-label="Net TCT" className={entry.tct_delta < 0 ? 'number negative' : 'number'}>
                    {signed(entry.tct_delta, count)}
                  </td>
                  <td data-label="Score" className="number">
                    {score(entry.score)}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Region>
    </>
  );
}
