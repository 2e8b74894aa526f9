import { Anchor, Button, Checkbox, Code, Group, Table, Text } from '@mantine/core';
import { useMemo, useState } from 'react';
import { count, score, signed, Time } from '../format.tsx';
import { Details, Panel } from '../panel.tsx';
import { DataTable } from '../table.tsx';
import { describe, type Events } from './history.ts';
import { ActionStatement } from './statement.tsx';

const ROWS = 25;

/** Everything that is known about one event. */
export function EventDetails({ trisId, events, index }: { trisId: string; events: Events; index: number }) {
  const entry = events.entries[index]!;
  const { what, from, to } = describe(events, index);
  return (
    <Panel title={what} order={3}>
      <Details
        rows={[
          ['Score', `${from === null ? 'first event, ' : `${score(from)} → `}${score(to)} (${entry.score_rating})`],
          ['Net TCT', `${signed(entry.tct_delta, count)}, then ${count(entry.total_tct)} in total`],
          entry.platform_id !== null && ['Platform', entry.platform_id],
          entry.counterparty !== undefined && ['Counterparty', entry.counterparty],
          entry.source !== undefined && [
            'Source',
            `${entry.source}: its organization was not vetted when it was recorded`,
          ],
          ['Occurred', <At key="occurred" value={entry.occurred_at} />],
          ['Recorded', <At key="recorded" value={entry.recorded_at} />],
          ['Event', <Code key="event">{`${entry.event_type} ${entry.event_id}`}</Code>],
          ['Position', <Code key="position">{entry.position}</Code>],
        ]}
      />
      {entry.event_type === 'ActionRelayed' && <ActionStatement trisId={trisId} actionId={entry.event_id} />}
    </Panel>
  );
}

const At = ({ value }: { value: string }) => (
  <>
    <Time value={value} />{' '}
    <Text span size="sm" c="dimmed">
      {value}
    </Text>
  </>
);

/** Events with the latest first, a page at a time. */
export function EventTable(props: { events: Events; selected: number; onSelect: (index: number) => void }) {
  const { events, selected, onSelect } = props;
  const [page, setPage] = useState(0);
  const [onlyFlags, setOnlyFlags] = useState(false);
  const chosen = useMemo(() => {
    const indices: number[] = [];
    for (let i = events.entries.length - 1; i >= 0; i--) {
      if (!onlyFlags || events.entries[i]!.tct_delta < 0) indices.push(i);
    }
    return indices;
  }, [events, onlyFlags]);
  const pages = Math.max(1, Math.ceil(chosen.length / ROWS));
  const current = Math.min(page, pages - 1);
  return (
    <>
      <Group gap="xs">
        <Checkbox
          label="Only forfeits"
          checked={onlyFlags}
          onChange={({ target }) => setOnlyFlags(target.checked)}
          mr="auto"
        />
        <Button disabled={current === 0} onClick={() => setPage(current - 1)}>
          Later
        </Button>
        <Text size="sm">
          Page {count(current + 1)} of {count(pages)}
        </Text>
        <Button disabled={current === pages - 1} onClick={() => setPage(current + 1)}>
          Earlier
        </Button>
      </Group>
      <DataTable
        label="List of events"
        className="cards"
        columns={['Occurred', 'Event', 'Platform', 'Net TCT', 'Score']}
        numbers={['Net TCT', 'Score']}
      >
        {chosen.slice(current * ROWS, (current + 1) * ROWS).map((index) => {
          const entry = events.entries[index]!;
          return (
            <Table.Tr key={entry.event_id} {...(index === selected && { className: 'selected' })}>
              <Table.Td>
                <Time value={entry.occurred_at} />
              </Table.Td>
              <Table.Th scope="row">
                <Anchor component="button" type="button" ta="left" onClick={() => onSelect(index)}>
                  {describe(events, index).what}
                </Anchor>
              </Table.Th>
              <Table.Td>{entry.platform_id}</Table.Td>
              <Table.Td
                data-label="Net TCT"
                ta="right"
                {...(entry.tct_delta < 0 && { c: 'var(--mantine-color-error)' })}
              >
                {signed(entry.tct_delta, count)}
              </Table.Td>
              <Table.Td data-label="Score" ta="right">
                {score(entry.score)}
              </Table.Td>
            </Table.Tr>
          );
        })}
      </DataTable>
    </>
  );
}
