import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { type Coordinates, get, type History, type Models, type Policies } from '../api.ts';
import { localTime, toInput } from '../format.tsx';
import { setParameters } from '../place.ts';
import { scorePath } from './use-score.ts';

const STEPS = 500;
const HOUR = 3_600_000;
/** A slider that is being moved changes the address when it rests. */
const REST_MS = 250;

/** Selects time and lens. What is selected is in the address, in parameters with `prefix`. */
export function CoordinatePicker(props: { trisId: string; coordinates: Coordinates; legend: string; prefix: string }) {
  const { trisId, coordinates, legend, prefix } = props;
  const first = useQuery({
    queryKey: ['first', trisId],
    queryFn: ({ signal }) => get<History>(scorePath(trisId, '/history'), { limit: 1 }, signal),
  });
  const policies = useQuery({
    queryKey: ['policies'],
    queryFn: ({ signal }) => get<Policies>('v1/policies/vp', { limit: 1000 }, signal),
  });
  const models = useQuery({ queryKey: ['models'], queryFn: ({ signal }) => get<Models>('v1/models', {}, signal) });
  const change = (changes: Coordinates) =>
    setParameters(Object.fromEntries(Object.entries(changes).map(([name, value]) => [prefix + name, value])));
  const earliest = first.data?.entries[0];
  const names = policies.data?.policies.map(({ policy_id }) => policy_id) ?? [];
  const { vp, model } = coordinates;
  const lenses = vp === undefined || vp === 'model' || names.includes(vp) ? names : [vp, ...names];
  return (
    <fieldset className="coordinates">
      <legend>{legend}: when and under which lens</legend>
      <TimePicker
        label="As of (occurred by)"
        earliest={earliest?.occurred_at}
        value={coordinates.as_of}
        onChange={(as_of) => change({ as_of, as_of_position: undefined })}
      />
      <TimePicker
        label="Known at (recorded by)"
        earliest={earliest?.recorded_at}
        value={coordinates.known_at}
        onChange={(known_at) => change({ known_at, as_of_position: undefined })}
      />
      <label>
        Lens
        <select value={vp ?? ''} onChange={({ target }) => change({ vp: target.value || undefined })}>
          <option value="">the service’s default</option>
          <option value="model">model (no policy)</option>
          {lenses.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Model
        <select value={model ?? ''} onChange={({ target }) => change({ model: target.value || undefined })}>
          <option value="">the service’s default</option>
          {(models.data?.models.map(({ id }) => id) ?? [model ?? []].flat()).map((id) => (
            <option key={id}>{id}</option>
          ))}
        </select>
      </label>
      {coordinates.as_of_position !== undefined && (
        <p className="small">
          Up to position <code>{coordinates.as_of_position}</code>.{' '}
          <button type="button" className="link" onClick={() => change({ as_of_position: undefined })}>
            Count all events
          </button>
        </p>
      )}
    </fieldset>
  );
}

/** A slider from the first event to now, and a field for an exact time. At its right end the slider means now. */
function TimePicker(props: {
  label: string;
  earliest: string | undefined;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) {
  const { label, earliest, value, onChange } = props;
  const [now] = useState(() => Date.now());
  const chosen = value === undefined ? now : Date.parse(value);
  const [moving, setMoving] = useState<number | null>(null);
  useEffect(() => {
    if (moving === null) return undefined;
    const timer = setTimeout(() => {
      setMoving(null);
      onChange(moving >= now ? undefined : new Date(moving).toISOString());
    }, REST_MS);
    return () => clearTimeout(timer);
    // The handler is new on each render; only a movement starts the timer.
    // oxlint-disable-next-line
  }, [moving]);
  const from = Math.min(earliest === undefined ? now - HOUR : Date.parse(earliest), now - HOUR);
  const shown = moving ?? chosen;
  const text = Number.isNaN(shown) ? 'not a time' : shown >= now ? 'now' : localTime(shown);
  return (
    <div className="time-picker" role="group" aria-label={label}>
      <label>
        {label}
        <input
          type="datetime-local"
          step={1}
          value={value === undefined && moving === null ? '' : toInput(shown)}
          max={toInput(now)}
          onChange={({ target }) => {
            if (target.value === '') return onChange(undefined);
            const time = new Date(target.value).getTime();
            if (time > 0) onChange(time >= now ? undefined : new Date(time).toISOString());
          }}
        />
      </label>
      <input
        type="range"
        aria-label={`${label}, slider`}
        aria-valuetext={text}
        min={from}
        max={now}
        step={Math.max(1000, Math.round((now - from) / STEPS))}
        value={Number.isNaN(shown) ? now : shown}
        onChange={({ target }) => {
          // The last step of a slider can end before its maximum.
          const time = Number(target.value);
          setMoving(now - time < (now - from) / STEPS ? now : time);
        }}
      />
      <span className="small">
        {text}{' '}
        {value !== undefined && (
          <button type="button" className="link" onClick={() => onChange(undefined)}>
            Now
          </button>
        )}
      </span>
    </div>
  );
}
