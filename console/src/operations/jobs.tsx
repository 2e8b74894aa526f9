import { Anchor, Badge, Button, Code, Table, Text } from '@mantine/core';
import { Fragment } from 'react';
import { type Schemas, remove } from '../api.ts';
import { Act } from '../form.tsx';
import { count, Time } from '../format.tsx';
import { Empty, Loaded } from '../loading.tsx';
import { Note, Panel } from '../panel.tsx';
import { hrefOf } from '../place.ts';
import { Advance, duration } from '../rate.tsx';
import { DataTable } from '../table.tsx';
import { useGet } from '../queries.ts';
import { Views } from './read-models.tsx';

const EVERY_MS = 1_000;

type Job = Schemas['JobSummaryDto'];

const COLOURS: Record<Job['status'], string> = {
  queued: 'gray',
  running: 'indigo',
  completed: 'green',
  failed: 'red',
  cancelled: 'gray',
};

const isOpen = ({ status }: Job): boolean => status === 'queued' || status === 'running';

/** The newest jobs of all callers. @param shown the job whose result is shown */
export function Jobs({ shown, show }: { shown: string | null; show: (jobId: string | null) => void }) {
  const jobs = useGet<'JobsDto'>('v1/jobs', {}, { refetchInterval: EVERY_MS });
  return (
    <Panel title="Jobs">
      <Loaded query={jobs} what="the jobs">
        {({ jobs: list }) =>
          list.length === 0 ? (
            <Empty>There is no job yet.</Empty>
          ) : (
            <DataTable label="List of jobs" columns={['Job', 'Status', 'Progress', 'Started', 'Actions']}>
              {list.map((job) => (
                <Fragment key={job.job_id}>
                  <Row job={job} at={jobs.dataUpdatedAt} isShown={shown === job.job_id} show={show} />
                  {shown === job.job_id && !isOpen(job) && (
                    <Table.Tr className="selected">
                      <Table.Td colSpan={5}>
                        <Outcome job={job} />
                      </Table.Td>
                    </Table.Tr>
                  )}
                </Fragment>
              ))}
            </DataTable>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Row(props: { job: Job; at: number; isShown: boolean; show: (jobId: string | null) => void }) {
  const { job, at, isShown, show } = props;
  const { job_id, kind, status } = job;
  const { done, total } = job.progress;
  return (
    <Table.Tr data-testid={`job-${kind}`}>
      <Table.Th scope="row">
        {kind}
        <br />
        <Code>{job_id}</Code>
      </Table.Th>
      <Table.Td>
        <Badge color={COLOURS[status]}>{status}</Badge>
      </Table.Td>
      <Table.Td>
        {status === 'running' ? (
          <Advance label={`Progress of ${job_id}`} done={done} total={total} at={at} />
        ) : (
          total > 0 && (
            <Note>
              {count(done)} of {count(total)}
            </Note>
          )
        )}
      </Table.Td>
      <Table.Td>
        <Time value={job.started_at} />
      </Table.Td>
      <Table.Td>
        {isOpen(job) ? (
          <Act label="Cancel" describes={job_id} act={() => remove(`v1/jobs/${encodeURIComponent(job_id)}`)} />
        ) : (
          <Button
            aria-expanded={isShown}
            aria-label={`Result of ${job_id}`}
            onClick={() => show(isShown ? null : job_id)}
          >
            Result
          </Button>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

function Outcome({ job: { job_id, status, problem } }: { job: Job }) {
  const job = useGet<'JobDto'>(`v1/jobs/${encodeURIComponent(job_id)}`, {}, { enabled: status === 'completed' });
  if (problem) return <Text c="var(--mantine-color-error)">{problem.detail}</Text>;
  if (status === 'cancelled') return <Text>It was cancelled.</Text>;
  if (job_id.startsWith('rpl_')) return <Anchor href={hrefOf('lab', job_id)}>The result in the policy lab</Anchor>;
  return (
    <div role="status">
      <Loaded query={job} what="the result">
        {(completed) => <ResultOf job={completed} />}
      </Loaded>
    </div>
  );
}

function ResultOf({ job }: { job: Schemas['JobDto'] }) {
  if (job.result === null) return null;
  switch (job.kind) {
    case 'rebuild': {
      const { generation, events, seconds, swapped } = job.result;
      return (
        <Text>
          {generation} has {count(events)} events, applied in {duration(seconds)} (
          {count(events / Math.max(seconds, 0.001))}/s). {swapped ? 'It serves now.' : 'It can be swapped to.'}
        </Text>
      );
    }
    case 'verify': {
      const { identical, rows, events, seconds, damaged_events, difference } = job.result;
      return (
        <>
          <Text>
            <strong>{identical ? 'Identical' : 'Not identical'}</strong>: {count(rows)} rows compared with a fresh fold
            of {count(events)} events, in {duration(seconds)}.
            {damaged_events ? ` ${count(damaged_events)} events cannot be read.` : ''}
          </Text>
          {difference && <Code block>{JSON.stringify(difference, null, 2)}</Code>}
        </>
      );
    }
    case 'swap':
    case 'rollback':
      return <Views views={job.result.views} />;
    default:
      return <Code block>{JSON.stringify(job.result, null, 2)}</Code>;
  }
}
