import { Anchor, Code, Fieldset, Group, NativeSelect, Slider, TextInput } from '@mantine/core';
import { useState } from 'react';
import type { Coordinates } from '../api.ts';
import { localTime, toInput } from '../format.tsx';
import { usePolicies } from '../lab/policies.ts';
import { setParameters } from '../place.ts';
import { useGet } from '../queries.ts';
import { scorePath } from './queries.ts';
import { Note } from '../panel.tsx';

const STEPS = 500;
const HOUR = 3_600_000;
const DEFAULT = 'the service’s default';

/** Selects time and lens. What is selected is in the address, in parameters with `prefix`. */
export function CoordinatePicker(props: { trisId: string; coordinates: Coordinates; legend: string; prefix: string }) {
  const { trisId, coordinates, legend, prefix } = props;
  const first = useGet<'HistoryDto'>(scorePath(trisId, '/history'), { limit: 1 });
  const models = useGet<'ModelsDto'>('v1/models');
  const change = (changes: Coordinates) =>
    setParameters(Object.fromEntries(Object.entries(changes).map(([name, value]) => [prefix + name, value])));
  const earliest = first.data?.entries[0];
  const names = usePolicies().data?.map(({ policy_id }) => policy_id) ?? [];
  const { vp, model } = coordinates;
  const lenses = vp === undefined || vp === 'model' || names.includes(vp) ? names : [vp, ...names];
  return (
    <Fieldset
      legend={`${legend}: when and under which lens`}
      className="grid fields"
      m={0}
      bg="var(--mantine-color-body)"
    >
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
      <NativeSelect
        label="Lens"
        value={vp ?? ''}
        onChange={({ target }) => change({ vp: target.value || undefined })}
        data={[{ value: '', label: DEFAULT }, { value: 'model', label: 'model (no policy)' }, ...lenses]}
      />
      <NativeSelect
        label="Model"
        value={model ?? ''}
        onChange={({ target }) => change({ model: target.value || undefined })}
        data={[{ value: '', label: DEFAULT }, ...(models.data?.models.map(({ id }) => id) ?? [model ?? []].flat())]}
      />
      {coordinates.as_of_position !== undefined && (
        <Note>
          Up to position <Code>{coordinates.as_of_position}</Code>.{' '}
          <Anchor component="button" type="button" onClick={() => change({ as_of_position: undefined })}>
            Count all events
          </Anchor>
        </Note>
      )}
    </Fieldset>
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
  const from = Math.min(earliest === undefined ? now - HOUR : Date.parse(earliest), now - HOUR);
  const step = Math.max(1000, Math.round((now - from) / STEPS));
  const shown = moving ?? chosen;
  const text = Number.isNaN(shown) ? 'not a time' : shown >= now ? 'now' : localTime(shown);
  return (
    <div role="group" aria-label={label}>
      <TextInput
        label={label}
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
      <Slider
        mt="sm"
        size="sm"
        thumbLabel={`${label}, slider`}
        label={null}
        thumbValueText={text}
        min={from}
        max={now}
        step={step}
        value={Number.isNaN(shown) ? now : shown}
        onChange={setMoving}
        onChangeEnd={(time) => {
          setMoving(null);
          // The last step of a slider can end before its maximum.
          onChange(now - time < step ? undefined : new Date(time).toISOString());
        }}
      />
      <Group gap="xs" mt={4}>
        <Note>{text}</Note>
        {value !== undefined && (
          <Anchor component="button" type="button" size="sm" onClick={() => onChange(undefined)}>
            Now
          </Anchor>
        )}
      </Group>
    </div>
  );
}
