import { Anchor, Badge } from '@mantine/core';
import { hrefOf } from './place.ts';

/**
 * Ratings from the lowest, where the band of each ends in a drawing, and its colour. BAD scores are 1 to 6, others at
 * least 7.
 */
export const RATINGS: readonly (readonly [name: string, below: number, colour: string])[] = [
  ['BAD', 6.5, 'red'],
  ['Poor', 20, 'orange'],
  ['Fair', 40, 'yellow'],
  ['Good', 62, 'lime'],
  ['Very Good', 80, 'green'],
  ['Excellent', 100, 'cyan'],
];

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const exact = new Intl.NumberFormat(undefined, { maximumFractionDigits: 4 });
const two = new Intl.NumberFormat(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const tenths = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const share = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });
const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

export const count = (value: number): string => whole.format(value);
/** A number of things, such as "1 event" or "2 events". */
export const counted = (value: number, thing: string): string => `${count(value)} ${thing}${value === 1 ? '' : 's'}`;
export const decimal = (value: number): string => exact.format(value);
export const hundredths = (value: number): string => two.format(value);
export const score = (value: number): string => tenths.format(value);
export const percent = (value: number): string => share.format(value);
/** An amount of bytes in the largest unit of which there is at least one. */
export function bytes(value: number): string {
  const power = Math.min(3, Math.floor(Math.log10(Math.max(1, value)) / 3));
  return `${exactly(value / 1000 ** power)} ${['bytes', 'kB', 'MB', 'GB'][power]}`;
}
const exactly = (value: number): string => (Number.isInteger(value) ? count(value) : score(value));
export const localTime = (value: string | number): string => local.format(new Date(value));

/** With its sign. Numbers that round to zero have none. */
export function signed(value: number, format: (value: number) => string): string {
  const text = format(Math.abs(value));
  if (text === format(0)) return text;
  return `${value < 0 ? '−' : '+'}${text}`;
}

/** A time in the reader's zone; UTC on hover. */
export function Time({ value }: { value: string }) {
  return (
    <time dateTime={value} title={`${new Date(value).toISOString()} (UTC)`}>
      {localTime(value)}
    </time>
  );
}

export function Rating({ name }: { name: string }) {
  return <Badge color={RATINGS.find(([rating]) => rating === name)?.[2] ?? 'gray'}>{name}</Badge>;
}

/** A link to what has a page, by its id. */
export const linkTo = (view: string, id: string, parameters?: URLSearchParams) => (
  <Anchor key={id} href={hrefOf(view, id, parameters)}>
    {id}
  </Anchor>
);

/** The value of an input of type datetime-local, in the reader's zone, to the second; empty for no time. */
export function toInput(milliseconds: number): string {
  if (Number.isNaN(milliseconds)) return '';
  const date = new Date(milliseconds);
  return new Date(milliseconds - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
