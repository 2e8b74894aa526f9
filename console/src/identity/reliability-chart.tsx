import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import { type Coordinates, get, type Score } from '../api.ts';
import { hundredths } from '../format.tsx';
import { Loaded } from '../loading.tsx';
import { onThemeChange } from '../theme.tsx';
import { atLeastAMinute, axisStyle, coloursOf, drawNow, fmtDate } from './score-chart.tsx';
import { scorePath } from './queries.ts';

/** So many times between the first event and now, since the reliability changes between events, too. */
const TIMES = 32;
const HEIGHT = 280;

interface Point {
  time: number;
  value: number;
  interval: readonly [number, number];
}

/** The reliability with its interval from the first event to now, in seconds: the score is asked for at each time. */
export function ReliabilityChart(props: { trisId: string; coordinates: Coordinates; first: number; now: number }) {
  const { trisId, coordinates, first, now } = props;
  const query = useQuery({
    queryKey: ['reliability', trisId, coordinates, first, now],
    queryFn: async ({ signal }) => {
      const path = scorePath(trisId);
      const from = Math.min(first, now - 60);
      const times = Array.from({ length: TIMES }, (_, i) => from + ((now - from) * (i + 1)) / TIMES);
      return Promise.all(
        times.map(async (time): Promise<Point> => {
          const as_of = new Date(time * 1000).toISOString();
          const { reliability, reliability_interval } = await get<Score>(path, { ...coordinates, as_of }, signal);
          return { time, value: reliability, interval: reliability_interval ?? [reliability, reliability] };
        }),
      );
    },
    staleTime: Infinity,
  });
  return (
    <Loaded query={query} what="the reliability at each time">
      {(points) => <Plot points={points} now={now} />}
    </Loaded>
  );
}

function Plot({ points, now }: { points: readonly Point[]; now: number }) {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = frame.current!;
    const draw = () => {
      const colours = { current: coloursOf(element) };
      const { axis, grid } = axisStyle(colours);
      const edge = { stroke: colours.current.line, width: 0, points: { show: false } };
      const columns = [
        ({ time }: Point) => time,
        ({ interval }: Point) => interval[0],
        ({ interval }: Point) => interval[1],
      ];
      return new uPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          legend: { show: false },
          fmtDate,
          cursor: { show: false },
          scales: { x: { time: true, range: atLeastAMinute }, y: { range: [0, 1] } },
          axes: [
            { ...axis, label: 'Time', grid: { show: false }, ticks: grid },
            { ...axis, label: 'Reliability, 0 to 1', grid, ticks: grid, size: 52 },
          ],
          series: [{}, edge, edge, { stroke: colours.current.line, width: 2, points: { show: false } }],
          bands: [{ series: [2, 1], fill: colours.current.bands[5]! }],
          hooks: { draw: [(chart) => drawNow(chart, colours.current, now)] },
        },
        [...columns, ({ value }: Point) => value].map((of) => points.map(of)) as uPlot.AlignedData,
        element,
      );
    };
    let chart = draw();
    const again = () => {
      chart.destroy();
      chart = draw();
    };
    const resized = new ResizeObserver(() => element.clientWidth !== chart.width && again());
    resized.observe(element);
    const unfollow = onThemeChange(again);
    return () => {
      resized.disconnect();
      unfollow();
      chart.destroy();
    };
  }, [points, now]);
  const { value, interval } = points.at(-1)!;
  return (
    <div
      ref={frame}
      className="plot"
      role="img"
      aria-label={`Reliability over time; now ${hundredths(value)}, ${hundredths(interval[0])} to ${hundredths(interval[1])}`}
    />
  );
}
