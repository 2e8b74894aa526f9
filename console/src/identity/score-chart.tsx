import { Box, Paper, Stack } from '@mantine/core';
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';
import { downsample } from '../downsample.ts';
import { count, localTime, RATINGS, score, signed } from '../format.tsx';
import { onThemeChange } from '../theme.tsx';
import { type Axis, describe, type Events, type Series } from './history.ts';

const HEIGHT = 280;
/** For each half of what is drawn: all of the line, and what is in view. */
const BUCKETS = 400;
/** With more marks than this in view, only the line is drawn. */
const MARKS = 1500;
const ZOOM = 2;

export interface Colours {
  line: string;
  text: string;
  grid: string;
  flag: string;
  status: string;
  bands: string[];
}

/** What is drawn. */
interface Line {
  events: Events;
  axis: Axis;
  series: Series;
  values: readonly number[];
  now: number;
}

/** Points on the line, as uPlot gets them. The last one may repeat the last event, now. */
interface Drawn {
  indices: number[];
  data: [number[], number[]];
}

/**
 * The score or the net TCT over time as a step line up to now, every event a mark. The pointer or the arrow keys move from event to event; a click
 * or Enter selects one. Dragging zooms, as + and − do.
 */
export function ScoreChart({
  events,
  axis,
  series,
  now,
  selected,
  onSelect,
}: {
  events: Events;
  /** Must not change, as `series`. */
  axis: Axis;
  series: Exclude<Series, 'reliability'>;
  /** The right end of a line over time, in seconds. */
  now: number;
  /** Index of the selected event, or −1. */
  selected: number;
  onSelect: (index: number) => void;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(-1);
  const [place, setPlace] = useState<{ left: number; top: number } | null>(null);
  const line = useMemo(
    () => ({ events, axis, series, values: series === 'tct' ? events.tct : events.scores, now }),
    [events, axis, series, now],
  );
  const plot = usePlot(frame, line, onSelect, setActive);

  const shown = active >= 0 && active < events.entries.length ? active : -1;
  useEffect(() => {
    const chart = plot.current!;
    if (shown < 0) return setPlace(null);
    setPlace({
      left: chart.valToPos(events.places[shown]!, 'x') + chart.over.offsetLeft,
      top: chart.valToPos(line.values[shown]!, 'y') + chart.over.offsetTop,
    });
  }, [shown, line]);

  const zoom = (factor: number) => {
    const { places: times } = events;
    const { min, max } = plot.current!.scales['x']!;
    if (min == null || max == null || times.length < 2) return;
    const middle = shown < 0 ? (min + max) / 2 : times[shown]!;
    const half = ((max - min) * factor) / 2;
    const [first, last] = [times[0]!, axis === 'time' ? Math.max(now, times.at(-1)!) : times.at(-1)!];
    plot.current!.setScale('x', { min: Math.max(first, middle - half), max: Math.min(last, middle + half) });
  };

  const move = (event: KeyboardEvent) => {
    const last = events.entries.length - 1;
    const from = shown < 0 ? (selected < 0 ? last : selected) : shown;
    const steps: Record<string, () => void> = {
      ArrowLeft: () => setActive(Math.max(0, from - 1)),
      ArrowRight: () => setActive(Math.min(last, from + 1)),
      PageUp: () => setActive(Math.max(0, from - 20)),
      PageDown: () => setActive(Math.min(last, from + 20)),
      Home: () => setActive(0),
      End: () => setActive(last),
      Enter: () => onSelect(from),
      '+': () => zoom(1 / ZOOM),
      '-': () => zoom(ZOOM),
      Escape: () => setActive(-1),
    };
    const step = steps[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    step();
  };

  const current = shown < 0 ? selected : shown;
  const text = useMemo(() => (current < 0 ? 'no event' : sentenceOf(events, current)), [events, current]);
  return (
    <Box pos="relative">
      <div
        ref={frame}
        className="plot"
        role="slider"
        tabIndex={0}
        aria-label={`${series === 'tct' ? 'Net TCT' : 'Score'} over time. Arrow keys move from event to event, Enter selects, plus and minus zoom.`}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, events.entries.length - 1)}
        aria-valuenow={Math.max(0, current)}
        aria-valuetext={text}
        onKeyDown={move}
        onBlur={() => setActive(-1)}
        onPointerLeave={() => setActive(-1)}
      />
      {place && shown >= 0 && <Tip events={events} index={shown} {...place} width={frame.current!.clientWidth} />}
    </Box>
  );
}

/**
 * The chart in an element: it is made once, gets the events as they change, and follows the size and the theme.
 * @param onHover called with the index of the event under the pointer, or −1
 */
function usePlot(
  frame: { readonly current: HTMLDivElement | null },
  line: Line,
  onSelect: (index: number) => void,
  onHover: (index: number) => void,
): { readonly current: uPlot | null } {
  const plot = useRef<uPlot | null>(null);
  const drawn = useRef<Drawn>({ indices: [], data: [[], []] });
  const latest = useRef({ line, onSelect });
  latest.current = { line, onSelect };

  useEffect(() => {
    const colours = { current: coloursOf(frame.current!) };
    const chart = new uPlot(
      optionsOf(frame.current!.clientWidth, line, colours, drawn, latest, {
        hovered: onHover,
        zoomed: () => queueMicrotask(() => resample()),
      }),
      [[], []],
      frame.current!,
    );
    plot.current = chart;
    let shownRange = '';
    const resample = () => {
      const { min, max } = chart.scales['x']!;
      const { places } = latest.current.line.events;
      const range = `${min} ${max} ${places.length}`;
      if (plot.current !== chart || range === shownRange || places.length <= 4 * BUCKETS) return;
      shownRange = range;
      drawn.current = select(latest.current.line, min ?? -Infinity, max ?? Infinity);
      chart.setData(drawn.current.data, false);
      chart.redraw();
    };
    const click = () => {
      const index = drawn.current.indices[chart.cursor.idx ?? -1];
      if (index !== undefined) latest.current.onSelect(index);
    };
    chart.over.addEventListener('click', click);
    const resized = new ResizeObserver(() =>
      chart.setSize({ width: frame.current?.clientWidth || chart.width, height: HEIGHT }),
    );
    resized.observe(frame.current!);
    const recolour = () => {
      colours.current = coloursOf(frame.current!);
      chart.redraw(false, true);
    };
    const unfollow = onThemeChange(recolour);
    return () => {
      resized.disconnect();
      unfollow();
      plot.current = null;
      chart.destroy();
    };
  }, []);

  useEffect(() => {
    drawn.current = select(line, -Infinity, Infinity);
    plot.current!.setData(drawn.current.data);
  }, [line]);

  return plot;
}

function Tip(props: { events: Events; index: number; left: number; top: number; width: number }) {
  const { events, index, left, top, width } = props;
  const entry = events.entries[index]!;
  const { what, from, to } = describe(events, index);
  const isRight = left > width / 2;
  return (
    <>
      <Box
        pos="absolute"
        left={left}
        top={top}
        w={14}
        h={14}
        m={-7}
        bdrs="50%"
        bd="2px solid var(--mantine-color-text)"
        style={{ pointerEvents: 'none' }}
      />
      <Paper
        className="tip"
        withBorder
        pos="absolute"
        px="xs"
        py={6}
        maw="18rem"
        top={top}
        {...(isRight ? { right: width - left + 12 } : { left: left + 12 })}
      >
        <Stack gap={0} fz="sm">
          <strong>{what}</strong>
          {entry.tct_delta !== 0 && <span>{signed(entry.tct_delta, count)} TCT</span>}
          <span>
            {from === null ? '' : `${score(from)} → `}
            {score(to)} {entry.score_rating}
          </span>
          <span>{localTime(entry.occurred_at)}</span>
        </Stack>
      </Paper>
    </>
  );
}

function sentenceOf(events: Events, index: number): string {
  const entry = events.entries[index]!;
  const { what, to } = describe(events, index);
  const moved = entry.tct_delta === 0 ? '' : `, ${signed(entry.tct_delta, count)} TCT`;
  return `${localTime(entry.occurred_at)}: ${what}${moved}, score ${score(to)}, ${entry.score_rating}`;
}

/** The whole line coarsely, and what lies between `min` and `max` finely. */
function select({ events, axis, values, now }: Line, min: number, max: number): Drawn {
  const { places } = events;
  const firstFrom = (place: number) => {
    const index = places.findIndex((one) => one >= place);
    return index < 0 ? places.length : index;
  };
  const coarse = downsample(places, values, 0, places.length, BUCKETS);
  const fine = downsample(places, values, firstFrom(min), firstFrom(max + 1), BUCKETS);
  const indices = coarse.length === places.length ? coarse : [...new Set([...coarse, ...fine])].sort((a, b) => a - b);
  const times = indices.map((i) => places[i]!);
  if (axis === 'time' && now > times.at(-1)!) {
    indices.push(indices.at(-1)!);
    times.push(now);
  }
  return { indices, data: [times, indices.map((i) => values[i]!)] };
}

/** uPlot draws on a canvas, which knows no style sheet. */
export function coloursOf(element: HTMLElement): Colours {
  const probe = element.appendChild(document.createElement('span'));
  const colour = (value: string) => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const colours = {
    line: colour('var(--mantine-color-anchor)'),
    text: colour('var(--mantine-color-dimmed)'),
    grid: colour('light-dark(#00000012, #ffffff14)'),
    flag: colour('var(--mantine-color-error)'),
    status: colour('var(--mantine-color-text)'),
    bands: RATINGS.map(([, , name]) => colour(`color-mix(in srgb, var(--mantine-color-${name}-5) 18%, transparent)`)),
  };
  probe.remove();
  return colours;
}

function optionsOf(
  width: number,
  { axis: kind, series }: Line,
  colours: { current: Colours },
  drawn: { current: Drawn },
  latest: { current: { line: Line } },
  on: { hovered: (index: number) => void; zoomed: () => void },
): uPlot.Options {
  const { axis, grid } = axisStyle(colours);
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    fmtDate,
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
    scales: {
      x: { time: kind === 'time', ...(kind === 'time' && { range: atLeastAMinute }) },
      y: { range: (_chart, _low, high) => [0, series === 'score' ? topOf(high) : Math.max(100, 1.1 * (high ?? 0))] },
    },
    axes: [
      {
        ...axis,
        label: kind === 'time' ? 'Time of the event' : 'Number of the event',
        grid: { show: false },
        ticks: grid,
      },
      { ...axis, label: series === 'score' ? 'DISC score, 1 to 100' : 'Net TCT', grid, ticks: grid, size: 52 },
    ],
    series: [
      {},
      {
        stroke: () => colours.current.line,
        width: 2,
        paths: uPlot.paths.stepped!({ align: 1 }),
        points: { show: false },
      },
    ],
    hooks: {
      drawClear: [(chart) => series === 'score' && drawBands(chart, colours.current)],
      draw: [
        (chart) => drawMarks(chart, colours.current, drawn.current, latest.current.line.events),
        (chart) => kind === 'time' && drawNow(chart, colours.current, latest.current.line.now),
      ],
      setCursor: [
        ({ cursor }) => {
          if (cursor.idx != null && (cursor.left ?? -1) >= 0) on.hovered(drawn.current.indices[cursor.idx] ?? -1);
        },
      ],
      setScale: [(_chart, scale) => void (scale === 'x' && on.zoomed())],
    },
  };
}

/** Of charts. A place that is not chosen is drawn with the rest of its axis. */
export function axisStyle(colours: { current: Colours }) {
  const font = '12px system-ui, sans-serif';
  return {
    axis: { stroke: () => colours.current.text, font, labelFont: font, labelSize: 20 },
    grid: { stroke: () => colours.current.grid, width: 1 },
  };
}

/** One event, of this moment, is not a line of no width. */
export const atLeastAMinute = (_chart: uPlot, from: number, to: number): [number, number] => [
  Math.min(from, to - 60),
  to,
];

/** A dashed line where the present is, or the time that is asked for. */
export function drawNow({ ctx, bbox, valToPos }: uPlot, { text }: Colours, now: number): void {
  const x = valToPos(now, 'x', true);
  if (x < bbox.left || x > bbox.left + bbox.width + 1) return;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = text;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = 'right';
  ctx.textBaseline = 'bottom';
  ctx.fillText('now', x, bbox.top - 3 * devicePixelRatio);
  ctx.restore();
}

/** uPlot's own formats have the month first, as a number, and 12 hours. */
export function fmtDate(template: string): (date: Date) => string {
  return uPlot.fmtDate(
    template
      .replace('{M}/{D}', '{D} {MMM}')
      .replace('/{YY}', ' {YYYY}')
      .replace(/\{h\}(:\{mm\})?\{aa\}/, '{HH}:{mm}'),
  );
}

/** The end of the band above the highest score: a low score is not a flat line at the bottom. */
function topOf(highest: number | null): number {
  return RATINGS.find(([, below]) => below > (highest ?? 100))?.[1] ?? 100;
}

function drawBands({ ctx, bbox, valToPos }: uPlot, { bands, text }: Colours): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  let from = 0;
  RATINGS.forEach(([name, below], i) => {
    const top = valToPos(below, 'y', true);
    const bottom = valToPos(from, 'y', true);
    ctx.fillStyle = bands[i]!;
    ctx.fillRect(bbox.left, top, bbox.width, bottom - top);
    ctx.fillStyle = text;
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    ctx.fillText(name, bbox.left + 6 * devicePixelRatio, (top + bottom) / 2);
    from = below;
  });
  ctx.restore();
}

/** Circles for what earns, triangles for what forfeits, squares for the rest. */
function drawMarks(chart: uPlot, colours: Colours, { indices, data: [times, scores] }: Drawn, events: Events): void {
  const { ctx, bbox } = chart;
  const { min, max } = chart.scales['x']!;
  const visible = times.flatMap((time, i) => (time >= min! && time <= max! ? [i] : []));
  if (visible.length > MARKS) return;
  const r = 3.5 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - r, bbox.width + r, bbox.height + 2 * r);
  ctx.clip();
  for (const i of visible) {
    // The line goes on to now, but nothing happened there.
    if (i > 0 && indices[i] === indices[i - 1]) continue;
    const x = chart.valToPos(times[i]!, 'x', true);
    const y = chart.valToPos(scores[i]!, 'y', true);
    const { tct_delta } = events.entries[indices[i]!]!;
    ctx.beginPath();
    if (tct_delta > 0) {
      ctx.fillStyle = colours.line;
      ctx.arc(x, y, r, 0, 2 * Math.PI);
    } else if (tct_delta < 0) {
      ctx.fillStyle = colours.flag;
      ctx.moveTo(x - 1.4 * r, y - 1.2 * r);
      ctx.lineTo(x + 1.4 * r, y - 1.2 * r);
      ctx.lineTo(x, y + 1.4 * r);
    } else {
      ctx.fillStyle = colours.status;
      ctx.rect(x - r, y - r, 2 * r, 2 * r);
    }
    ctx.fill();
  }
  ctx.restore();
}
