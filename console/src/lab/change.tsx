import { Anchor, Box, Group, Paper, Progress, Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { count, decimal, percent, Rating, RATINGS, score, signed } from '../format.tsx';
import { hrefOf } from '../place.ts';
import { Figures, Panel } from '../panel.tsx';
import { DataTable } from '../table.tsx';
import { Empty } from '../loading.tsx';
import type { AccessChange, LensName, Mover, Reason, Summary } from './policies.ts';

const NAMES = RATINGS.map(([name]) => name);
const OUTCOMES = ['Pass before', 'Pass after', 'Gain', 'Lose'];

/** What a change of lens does to many identities. */
export function Change(props: {
  summary: Summary;
  /** Links to identities compare these. Null: the policy is not stored, so no link can name it. */
  lenses: { before: LensName; after: LensName } | null;
}) {
  const { summary, lenses } = props;
  const { count: all, up, down, unchanged, mean_delta, histogram, top_movers } = summary;
  const link = (trisId: string) => <Anchor href={comparisonHref(trisId, lenses)}>{trisId}</Anchor>;
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
            ['Mean change', signed(mean_delta, decimal), 'points'],
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
function Moves({ moves }: { moves: Summary['rating_moves'] }) {
  return (
    <Panel title="Changes of rating" order={3} isLandmark={false}>
      <Text size="sm" c="dimmed">
        Rows: the rating before. Columns: the rating after.
      </Text>
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

function Movers(props: { caption: string; movers: readonly Mover[]; link: (trisId: string) => ReactNode }) {
  const { caption, movers, link } = props;
  return (
    <Panel title={caption} order={3} isLandmark={false}>
      {movers.length === 0 ? (
        <Empty>None.</Empty>
      ) : (
        <DataTable
          label={caption}
          columns={['Identity', 'Before', 'After', 'Change', 'Because of, in TCT']}
          numbers={['Before', 'After', 'Change']}
        >
          {movers.map(({ tris_id, before, after, delta, reasons }) => (
            <Table.Tr key={tris_id}>
              <Table.Th scope="row">{link(tris_id)}</Table.Th>
              <Table.Td ta="right">{score(before.score)}</Table.Td>
              <Table.Td ta="right">
                {score(after.score)} <Rating name={after.score_rating} />
              </Table.Td>
              <Table.Td ta="right" {...(delta < 0 && { c: 'var(--mantine-color-error)' })}>
                {signed(delta, score)}
              </Table.Td>
              <Table.Td>
                <Reasons reasons={reasons} />
              </Table.Td>
            </Table.Tr>
          ))}
        </DataTable>
      )}
    </Panel>
  );
}

export function Reasons({ reasons }: { reasons: readonly Reason[] }) {
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

function Access({ changes, link }: { changes: readonly AccessChange[]; link: (trisId: string) => ReactNode }) {
  return (
    <Panel title="Access policies" order={3} isLandmark={false}>
      {changes.length === 0 ? (
        <Empty>No access policy was evaluated.</Empty>
      ) : (
        <DataTable label="Access before and after" columns={['Policy', ...OUTCOMES, 'Who']} numbers={OUTCOMES}>
          {changes.map((change) => (
            <Table.Tr key={change.policy_id}>
              <Table.Th scope="row">
                <Anchor href={hrefOf('lab', change.policy_id)}>{change.policy_id}</Anchor>
              </Table.Th>
              <Table.Td ta="right">{count(change.granted_before)}</Table.Td>
              <Table.Td ta="right">{count(change.granted_after)}</Table.Td>
              <Table.Td ta="right">{count(change.gained)}</Table.Td>
              <Table.Td ta="right">{count(change.lost)}</Table.Td>
              <Table.Td fz="sm" c="dimmed">
                <Some what="gain" ids={change.gained_by} of={change.gained} link={link} />
                <Some what="lose" ids={change.lost_by} of={change.lost} link={link} />
              </Table.Td>
            </Table.Tr>
          ))}
        </DataTable>
      )}
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
