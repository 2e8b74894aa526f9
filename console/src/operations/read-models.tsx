import { Badge, Checkbox, Code, Group, List, NativeSelect, Table, Text } from '@mantine/core';
import { type Schemas, post, remove } from '../api.ts';
import { Act } from '../form.tsx';
import { count } from '../format.tsx';
import { Empty, Loaded } from '../loading.tsx';
import { Figures, Note, Panel } from '../panel.tsx';
import { Advance, duration, useRate } from '../rate.tsx';
import { DataTable } from '../table.tsx';
import { Confirmed } from '../confirmed.tsx';
import { useGet } from '../queries.ts';

const EVERY_MS = 2_000;

type Generation = Schemas['GenerationDto'];

type Status = Schemas['StatusDto'];

type Started = Schemas['JobStartedDto'];

/** The log, and the generations of read models with what can be done with them. */
export function ReadModels({ onStarted }: { onStarted: (jobId: string) => void }) {
  const status = useGet<'StatusDto'>('v1/ops/status', {}, { refetchInterval: EVERY_MS });
  return (
    <Loaded query={status} what="the status">
      {(data) => (
        <>
          <Log status={data} at={status.dataUpdatedAt} />
          <Generations status={data} at={status.dataUpdatedAt} onStarted={onStarted} />
        </>
      )}
    </Loaded>
  );
}

/** The part of a position after the id of the log. */
const numberOf = (position: string): string => position.split('.').at(-1)!;

function Log({ status, at }: { status: Status; at: number }) {
  const rate = useRate(status.events, at);
  const serving = status.generations.filter(({ serves }) => serves.length > 0);
  const lag = Math.max(0, ...serving.map(({ lag_events }) => lag_events));
  const seconds = Math.max(0, ...serving.map(({ lag_seconds }) => lag_seconds));
  const figures: [string, string, string][] = [
    ['Head', numberOf(status.head), 'position in the log'],
    ['Events', count(status.events), 'in the log'],
    ['Throughput', rate === null ? '…' : `${count(rate)}/s`, 'events recorded in the last 20 s'],
    ['Lag', `${count(lag)} events`, `reads are ${duration(seconds)} behind`],
    ['Dead letters', count(status.dead_letters.open), `open; ${count(status.dead_letters.acknowledged)} acknowledged`],
    ['Failed jobs', count(status.failed_jobs.count), 'of the newest 50'],
  ];
  return (
    <Panel title="Log">
      <Figures figures={figures} />
      <Note>
        Its id is <Code>{status.log_id}</Code>.
      </Note>
    </Panel>
  );
}

function Generations({ status, at, onStarted }: { status: Status; at: number; onStarted: (jobId: string) => void }) {
  const { generations, previous_views } = status;
  const views = [...new Set(generations.flatMap((generation) => Object.keys(generation.views)))];
  const there = new Set(generations.map(({ id }) => id));
  const isThere = previous_views !== null && Object.values(previous_views).every((id) => there.has(id));
  const started = ({ job_id }: Started) => onStarted(job_id);
  return (
    <Panel title="Generations of read models">
      {generations.length === 0 ? (
        <Empty>There is none yet: a worker builds the first one.</Empty>
      ) : (
        <DataTable
          label="List of generations"
          columns={['Generation', 'Status', 'Serves', 'Checkpoint', 'Lag', 'Actions']}
        >
          {generations.map((generation) => (
            <Row key={generation.id} generation={generation} status={status} at={at} onStarted={started} />
          ))}
        </DataTable>
      )}
      <Group gap="xs">
        <Confirmed
          label="Rebuild"
          title="Rebuild"
          verb="Start the rebuild"
          act={(form) => {
            const view = String(form.get('view'));
            const swap = form.get('swap') === 'on';
            return post<Started>('v1/ops/rebuild', { ...(view !== '' && { views: [view] }), swap });
          }}
          onDone={started}
        >
          <Text size="sm">
            Builds a generation from the log, beside the one that serves. Reads and writes go on meanwhile. A rebuild
            that was interrupted is continued.
          </Text>
          <NativeSelect label="Views" name="view" data={[{ value: '', label: 'all' }, ...views]} />
          <Checkbox label="Serve it once it is built" name="swap" />
        </Confirmed>
        {isThere && (
          <Confirmed
            label="Roll back"
            title="Roll back the last swap"
            verb="Roll back"
            act={() => post<Started>('v1/ops/rollback', undefined)}
            onDone={started}
          >
            <Text size="sm">Every view is served again as before the last swap:</Text>
            <Views views={previous_views} />
          </Confirmed>
        )}
        <Act label="Verify" act={() => post<Started>('v1/ops/verify', undefined)} onDone={started} />
      </Group>
    </Panel>
  );
}

/** Which generation serves each view. */
export function Views({ views }: { views: Record<string, string> }) {
  const ids = [...new Set(Object.values(views))];
  const named = ids.map((id) => ({ id, names: Object.keys(views).filter((name) => views[name] === id) }));
  return (
    <List size="sm">
      {named.map(({ id, names }) => (
        <List.Item key={id}>
          {id}: {ids.length === 1 ? 'all views' : names.join(', ')}
        </List.Item>
      ))}
    </List>
  );
}

function Row(props: { generation: Generation; status: Status; at: number; onStarted: (started: Started) => void }) {
  const { generation, status, at, onStarted } = props;
  const { id, serves, views, applied_events, lag_events, lag_seconds } = generation;
  const isBuilding = generation.status === 'building';
  const all = serves.length === Object.keys(views).length;
  return (
    <Table.Tr>
      <Table.Th scope="row">{id}</Table.Th>
      <Table.Td>
        <Badge miw="max-content" color={generation.of_this_log && !isBuilding ? 'green' : 'gray'}>
          {generation.of_this_log ? generation.status : 'of another log'}
        </Badge>
        {isBuilding && applied_events !== null && (
          <Advance label={`Events applied to ${id}`} done={applied_events} total={status.events} at={at} />
        )}
      </Table.Td>
      <Table.Td title={Object.keys(views).join(', ')}>
        {all ? 'all its views' : serves.join(', ') || 'nothing'}
      </Table.Td>
      <Table.Td>{numberOf(generation.position)}</Table.Td>
      <Table.Td>
        {count(lag_events)}
        {lag_events === 0 ? '' : `, ${duration(lag_seconds)}`}
      </Table.Td>
      <Table.Td>
        <Group gap="xs">
          {generation.status === 'ready' && !all && (
            <Confirmed
              label="Swap to"
              describes={id}
              title={`Swap to ${id}`}
              verb={`Serve ${id}`}
              act={() => post<Started>('v1/ops/swap', { generation: id })}
              onDone={onStarted}
            >
              <Text size="sm">
                {id} serves {Object.keys(views).join(', ')} for all readers at once. What served before is kept for a
                rollback.
              </Text>
            </Confirmed>
          )}
          {serves.length === 0 && (
            <Confirmed
              label="Drop"
              describes={id}
              title={`Drop ${id}`}
              verb={`Delete ${id}`}
              act={() => remove(`v1/ops/generations/${id}`)}
            >
              <Text size="sm">
                {id} is deleted and its space is freed.{' '}
                {isKeptForRollback(status, id) && 'The last swap can then not be rolled back.'}
              </Text>
            </Confirmed>
          )}
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}

const isKeptForRollback = ({ previous_views }: Status, id: string): boolean =>
  Object.values(previous_views ?? {}).includes(id);
