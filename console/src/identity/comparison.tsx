import type { UseQueryResult } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Score } from '../api.ts';
import { count, decimal, Rating, score, signed } from '../format.tsx';
import { Loaded } from '../loading.tsx';
import { coordinatesOf } from '../place.ts';
import { Region } from '../region.tsx';
import { CoordinatePicker } from './coordinate-picker.tsx';
import { useScore } from './use-score.ts';

/** Of the parameters of the compared side. */
export const PREFIX = 'b_';

/** Two points in time or two lenses side by side, with the differences. */
export function Comparison(props: { trisId: string; parameters: URLSearchParams; a: UseQueryResult<Score, Error> }) {
  const { trisId, parameters, a } = props;
  const coordinates = useMemo(() => coordinatesOf(parameters, PREFIX), [parameters]);
  const b = useScore(trisId, coordinates);
  return (
    <section aria-labelledby="comparison-title">
      <h2 id="comparison-title">Comparison</h2>
      <CoordinatePicker trisId={trisId} coordinates={coordinates} legend="B" prefix={PREFIX} />
      <Loaded query={b} what="the compared score">
        {(right) => (a.data ? <Differences a={a.data} b={right} /> : null)}
      </Loaded>
    </section>
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
    <Region label="Comparison of A and B">
      <table className="comparison">
        <thead>
          <tr>
            <td />
            {['A', 'B', 'B − A'].map((name) => (
              <th key={name} scope="col" className="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">Rating</th>
            <td className="number">
              <Rating name={a.score_rating} />
            </td>
            <td className="number">
              <Rating name={b.score_rating} />
            </td>
            <td className="number">{a.score_rating === b.score_rating ? 'same' : 'changed'}</td>
          </tr>
          {rows.map(([name, left, right, format]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="number">{format(left)}</td>
              <td className="number">{format(right)}</td>
              <td className="number">{signed(right - left, format)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Region>
  );
}
