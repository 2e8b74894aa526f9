import { Progress } from '@mantine/core';
import { useRef } from 'react';
import { count } from './format.tsx';
import { Note } from './panel.tsx';

/** The rate is measured over this many values. */
const LOOKS = 10;

/** How much a value grew per second, over the latest values; null before the second one, or if it is not known. */
export function useRate(value: number | null, at: number): number | null {
  const looks = useRef<{ at: number; value: number }[]>([]);
  if (value !== null && looks.current.at(-1)?.at !== at) {
    // A value that falls has started again.
    const before = looks.current.filter((look) => look.value <= value);
    looks.current = [...before, { at, value }].slice(-LOOKS);
  }
  const [first] = looks.current;
  if (value === null || !first || first.at >= at) return null;
  return (1000 * (value - first.value)) / (at - first.at);
}

export function duration(seconds: number): string {
  if (seconds < 90) return `${seconds < 10 ? Math.max(0, Math.round(seconds * 10) / 10) : Math.round(seconds)} s`;
  return seconds < 5_400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
}

/** How far something is that takes long, how fast it goes on, and what is left. @param props.at when that was asked for */
export function Advance(props: { label: string; done: number; total: number; what?: string; at: number }) {
  const { label, done, total, what = '', at } = props;
  const rate = useRate(done, at);
  return (
    <>
      <Progress aria-label={label} value={(100 * done) / Math.max(1, total)} />
      <Note>
        {count(done)} of {count(total)}
        {what}
        {rate ? `, ${count(rate)}/s, ${duration((total - done) / rate)} left` : ''}
      </Note>
    </>
  );
}
