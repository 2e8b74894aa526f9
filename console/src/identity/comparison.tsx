import { Table } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Score } from '../api.ts';
import { count, decimal, Rating, score, signed } from '../format.tsx';
import { Loaded } from '../loading.tsx';
import { Panel } from '../panel.tsx';
import { coordinatesOf } from '../place.ts';
import { DataTable } from '../table.tsx';
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
    <DataTable label="Comparison of A and B" columns={['', 'A', 'B', 'B − A']} numbers={['A', 'B', 'B − A']}>
      <Table.Tr>
        <Table.Th scope="row">Rating</Table.Th>
        <Table.Td ta="right">
          <Rating name={a.score_rating} />
        </Table.Td>
        <Table.Td ta="right">
          <Rating name={b.score_rating} />
        </Table.Td>
        <Table.Td ta="right">{a.score_rating === b.score_rating ? 'same' : 'changed'}</Table.Td>
      </Table.Tr>
      {rows.map(([name, left, right, format]) => (
        <Table.Tr key={name}>
          <Table.Th scope="row">{name}</Table.Th>
          <Table.Td ta="right">{format(left)}</Table.Td>
          <Table.Td ta="right">{format(right)}</Table.Td>
          <Table.Td ta="right">{signed(right - left, format)}</Table.Td>
        </Table.Tr>
      ))}
    </DataTable>
  );
}
