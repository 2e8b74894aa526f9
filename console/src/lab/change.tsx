import { Anchor, Box, Group, Paper, Progress, Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Schemas } from '../api.ts';
import { count, hundredths, linkTo, percent, Rating, RATINGS, score, signed } from '../format.tsx';
import { hrefOf } from '../place.ts';
import { Figures, Note, Panel } from '../panel.tsx';
import { DataTable, Rows } from '../table.tsx';
import { Empty } from '../loading.tsx';
import type { LensName } from './policies.ts';

const NAMES = RATINGS.map(([name]) => name);

/** What a change of lens does to many identities. */
export function Change(props: {
  summary: Schemas['SummaryDto'];
  /** Links to identities compare these. Null: the policy is not stored, so no link can name it. */
  lenses: { before: LensName; after: LensName } | null;
}) {
  const { summary, lenses } = props;
  const { count: all, up, down, unchanged, mean_delta, histogram, top_movers } = summary;
  const link = (trisId: string) => (
    <Anchor key={trisId} href={comparisonHref(trisId, lenses)}>
      {trisId}
    </Anchor>
  );
  if (all === 0) return <Empty>There is no identity to compare.</Empty>;
  return (
    <>
      <Paper withBorder p="md">
        <Figures
          figures={[
            ['Identities', count(all), ''],
            ['Rise', count(up), percent(up / all)],
            ['Fall', count(down), percent(down / all)],
            ['Unchanged', count(unchanged), percent(unchanged / all)],
            ['Mean change', signed(mean_delta, hundredths), 'points'],
          ]}
        />
      </Paper>
      <div className="grid columns">
        <Bars
          caption="Scores"
          what="Score"
          names={histogram.before.by_score.map((_n, i) => `${i * 10} to ${i * 10 + 10}`)}
          before={histogram.before.by_score}
          after={histogram.after.by_score}
        />
        <Bars
          caption="Ratings"
          what="Rating"
          names={NAMES}
          before={NAMES.map((name) => histogram.before.by_rating[name] ?? 0)}
          after={NAMES.map((name) => histogram.after.by_rating[name] ?? 0)}
        />
      </div>
      <Moves moves={summary.rating_moves} />
      <Access changes={summary.access} link={link} />
      <Movers caption="Largest rises" movers={top_movers.up} link={link} />
      <Movers caption="Largest falls" movers={top_movers.down} link={link} />
    </>
  );
}

/** An identity under both lenses, side by side. */
export function comparisonHref(trisId: string, lenses: { before: LensName; after: LensName } | null): string {
  if (lenses === null) return hrefOf('identity', trisId);
  const { before, after } = lenses;
  const parameters = new URLSearchParams({
    vp: before.policy_id ?? 'model',
    model: before.model.id,
    compare: 'on',
    b_vp: after.policy_id ?? 'model',
    b_model: after.model.id,
  });
  return hrefOf('identity', trisId, parameters);
}

/** Two distributions with one scale. */
function Bars(props: {
  caption: string;
  what: string;
  names: readonly string[];
  before: readonly number[];
  after: readonly number[];
}) {
  const { caption, what, names, before, after } = props;
  const most = Math.max(1, ...before, ...after);
  const cell = (value: number, color: string) => (
    <Table.Td w="38%">
      <Group gap="xs" wrap="nowrap">
        <Progress size="sm" flex={1} color={color} value={(100 * value) / most} aria-hidden="true" />
        <span>{count(value)}</span>
      </Group>
    </Table.Td>
  );
  return (
    <Panel title={caption} order={3} isLandmark={false}>
      <DataTable label={`${caption} before and after`} columns={[what, 'Before', 'After']}>
        {names.map((name, i) => (
          <Table.Tr key={name}>
            <Table.Th scope="row">{name}</Table.Th>
            {cell(before[i]!, 'gray.5')}
            {cell(after[i]!, 'indigo')}
          </Table.Tr>
        ))}
      </DataTable>
    </Panel>
  );
}

/** How many identities go from which rating to which: the darker, the more of those with the old rating. */
function Moves({ moves }: { moves: Schemas['SummaryDto']['rating_moves'] }) {
  return (
    <Panel title="Changes of rating" order={3} isLandmark={false}>
      <Note>Rows: the rating before. Columns: the rating after.</Note>
      <DataTable label="Changes of rating" columns={['from, to', ...NAMES]} numbers={NAMES}>
        {NAMES.map((from) => {
          const row = NAMES.map((to) => moves[from]?.[to] ?? 0);
          const sum = Math.max(
            1,
            row.reduce((a, b) => a + b, 0),
          );
          return (
            <Table.Tr key={from}>
              <Table.Th scope="row">{from}</Table.Th>
              {row.map((moved, i) => (
                <Table.Td key={NAMES[i]} ta="right" pos="relative" {...(NAMES[i] === from && { fw: 700 })}>
                  {moved > 0 && (
                    <Box
                      pos="absolute"
                      inset={0}
                      bg="var(--mantine-color-anchor)"
                      opacity={0.08 + (0.17 * moved) / sum}
                    />
                  )}
                  {moved === 0 ? '·' : count(moved)}
                </Table.Td>
              ))}
            </Table.Tr>
          );
        })}
      </DataTable>
    </Panel>
  );
}

function Movers(props: {
  caption: string;
  movers: readonly Schemas['MoverDto'][];
  link: (trisId: string) => ReactNode;
}) {
  const { caption, movers, link } = props;
  return (
    <Panel title={caption} order={3} isLandmark={false}>
      <Rows
        caption={caption}
        empty="None."
        head={['Identity', 'Before', 'After', 'Rating', 'Change', 'Because of, in TCT']}
        rows={movers.map(({ tris_id, before, after, delta, reasons }) => [
          link(tris_id),
          score(before.score),
          score(after.score),
          <Rating key="rating" name={after.score_rating} />,
          signed(delta, score),
          <Reasons key="reasons" reasons={reasons} />,
        ])}
      />
    </Panel>
  );
}

export function Reasons({ reasons }: { reasons: readonly Schemas['ReasonDto'][] }) {
  return (
    <Text span size="sm" c="dimmed">
      {reasons.map(({ metric, before_tct, after_tct }, i) => (
        <span key={metric}>
          {i > 0 && ', '}
          {metric} {signed(after_tct - before_tct, count)}
        </span>
      ))}
    </Text>
  );
}

function Access({
  changes,
  link,
}: {
  changes: readonly Schemas['AccessChangeDto'][];
  link: (trisId: string) => ReactNode;
}) {
  return (
    <Panel title="Access policies" order={3} isLandmark={false}>
      <Rows
        caption="Access before and after"
        empty="No access policy was evaluated."
        head={['Policy', 'Pass before', 'Pass after', 'Gain', 'Lose', 'Who']}
        rows={changes.map((change) => [
          linkTo('lab', change.policy_id),
          count(change.granted_before),
          count(change.granted_after),
          count(change.gained),
          count(change.lost),
          <Box key="who" fz="sm" c="dimmed">
            <Some what="gain" ids={change.gained_by} of={change.gained} link={link} />
            <Some what="lose" ids={change.lost_by} of={change.lost} link={link} />
          </Box>,
        ])}
      />
    </Panel>
  );
}

function Some(props: { what: string; ids: readonly string[]; of: number; link: (trisId: string) => ReactNode }) {
  const { what, ids, of, link } = props;
  if (ids.length === 0) return null;
  return (
    <details>
      <summary>
        {ids.length < of ? `${count(ids.length)} of those who ${what}` : `who ${what === 'gain' ? 'gains' : 'loses'}`}
      </summary>
      {ids.map((id, i) => (
        <span key={id}>
          {i > 0 && ', '}
          {link(id)}
        </span>
      ))}
    </details>
  );
}
