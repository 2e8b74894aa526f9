import type { UseQueryResult } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Score } from '../api.ts';
import { count, decimal, Rating, score, signed } from '../format.tsx';
import { Loaded } from '../loading.tsx';
import { Panel } from '../panel.tsx';
import { coordinatesOf } from '../place.ts';
import { Rows } from '../table.tsx';
import { CoordinatePicker } from './coordinate-picker.tsx';
import { useScore } from './queries.ts';

/** Of the parameters of the compared side. */
export const PREFIX = 'b_';

/** Two points in time or two lenses side by side, with the differences. */
export function Comparison(props: { trisId: string; parameters: URLSearchParams; a: UseQueryResult<Score, Error> }) {
  const { trisId, parameters, a } = props;
  const coordinates = useMemo(() => coordinatesOf(parameters, PREFIX), [parameters]);
  const b = useScore(trisId, coordinates);
  return (
    <Panel title="Comparison">
      <CoordinatePicker trisId={trisId} coordinates={coordinates} legend="B" prefix={PREFIX} />
      <Loaded query={b} what="the compared score">
        {(right) => (a.data ? <Differences a={a.data} b={right} /> : null)}
      </Loaded>
    </Panel>
  );
}

function Differences({ a, b }: { a: Score; b: Score }) {
  const rows: [name: string, a: number, b: number, format: (value: number) => string][] = [
    ['Score', a.score, b.score, score],
    ['TCT', a.total_tct, b.total_tct, count],
    ['Earned', a.earned_tct, b.earned_tct, count],
    ['Forfeited', a.forfeited_tct, b.forfeited_tct, count],
    ['Reliability', a.reliability, b.reliability, decimal],
    ...(Object.keys(a.disc_metrics) as (keyof Score['disc_metrics'])[]).map(
      (name) => [name, a.disc_metrics[name], b.disc_metrics[name], decimal] as (typeof rows)[number],
    ),
  ];
  return (
    <Rows
      caption="Comparison of A and B"
      empty=""
      head={['', 'A', 'B', 'B − A']}
      rows={[
        [
          'Rating',
          <Rating key="a" name={a.score_rating} />,
          <Rating key="b" name={b.score_rating} />,
          a.score_rating === b.score_rating ? 'same' : 'changed',
        ],
        ...rows.map(([name, left, right, format]) => [name, format(left), format(right), signed(right - left, format)]),
      ]}
    />
  );
}
