import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Fragment } from 'react';
import { type Schemas, get, remove } from '../api.ts';
import { count, Time } from '../format.tsx';
import { Empty, Failure, Loaded } from '../loading.tsx';
import { hrefOf } from '../place.ts';
import { duration, useRate } from '../rate.ts';
import { Views } from './read-models.tsx';
import { Table } from './table.tsx';

const EVERY_MS = 1_000;

type Job = Schemas['JobSummaryDto'];

const isOpen = ({ status }: Job): boolean => status === 'queued' || status === 'running';

/** The newest jobs of all callers. @param shown the job whose result is shown */
export function Jobs({ shown, show }: { shown: string | null; show: (jobId: string | null) => void }) {
  const jobs = useQuery({
    queryKey: ['operations', 'jobs'],
    queryFn: ({ signal }) => get<Schemas['JobsDto']>('v1/jobs', {}, signal),
    refetchInterval: EVERY_MS,
  });
  return (
    <section aria-labelledby="jobs-title">
      <h2 id="jobs-title">Jobs</h2>
      <Loaded query={jobs} what="the jobs">
        {({ jobs: list }) =>
          list.length === 0 ? (
            <Empty>There is no job yet.</Empty>
          ) : (
            <Table label="List of jobs" columns={['Job', 'Status', 'Progress', 'Started', 'Actions']}>
              {list.map((job) => (
                <Fragment key={job.job_id}>
                  <Row job={job} at={jobs.dataUpdatedAt} isShown={shown === job.job_id} show={show} />
                  {shown === job.job_id && !isOpen(job) && (
                    <tr className="selected">
                      <td colSpan={5}>
                        <Outcome job={job} />
                      </td>
                    </tr>
                  )}
                </Fragment>
              ))}
            </Table>
          )
        }
      </Loaded>
    </section>
  );
}

function Row(props: { job: Job; at: number; isShown: boolean; show: (jobId: string | null) => void }) {
  const { job, at, isShown, show } = props;
  const { job_id, kind, status } = job;
  const { done, total } = job.progress;
  const rate = useRate(status === 'running' ? done : null, at);
  const client = useQueryClient();
  const cancel = useMutation({
    mutationFn: () => remove(`v1/jobs/${encodeURIComponent(job_id)}`),
    onSuccess: () => client.invalidateQueries({ queryKey: ['operations'] }),
  });
  return (
    <tr data-testid={`job-${kind}`}>
      <th scope="row">
        {kind}
        <br />
        <small>
          <code>{job_id}</code>
        </small>
      </th>
      <td>
        {status}
        {cancel.error && <Failure error={cancel.error} />}
      </td>
      <td>
        {status === 'running' && (
          <progress aria-label={`Progress of ${job_id}`} max={Math.max(1, total)} value={done} />
        )}
        {total > 0 && (
          <small>
            {count(done)} of {count(total)}
            {rate ? `, ${count(rate)}/s, ${duration((total - done) / rate)} left` : ''}
          </small>
        )}
      </td>
      <td>
        <Time value={job.started_at} />
      </td>
      <td className="actions">
        {isOpen(job) ? (
          <button
            type="button"
            aria-label={`Cancel ${job_id}`}
            disabled={cancel.isPending}
            onClick={() => cancel.mutate()}
          >
            Cancel
          </button>
        ) : (
          <button
            type="button"
            aria-expanded={isShown}
            aria-label={`Result of ${job_id}`}
            onClick={() => show(isShown ? null : job_id)}
          >
            Result
          </button>
        )}
      </td>
    </tr>
  );
}

function Outcome({ job: { job_id, status, problem, finished_at } }: { job: Job }) {
  const job = useQuery({
    queryKey: ['operations', 'job', job_id, finished_at],
    queryFn: ({ signal }) => get<Schemas['JobDto']>(`v1/jobs/${encodeURIComponent(job_id)}`, {}, signal),
    enabled: status === 'completed',
    staleTime: Infinity,
  });
  if (problem) return <p className="problem">{problem.detail}</p>;
  if (status === 'cancelled') return <p>It was cancelled.</p>;
  if (job_id.startsWith('rpl_')) return <a href={hrefOf('lab', job_id)}>The result in the policy lab</a>;
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
        <p>
          {generation} has {count(events)} events, applied in {duration(seconds)} (
          {count(events / Math.max(seconds, 0.001))}/s). {swapped ? 'It serves now.' : 'It can be swapped to.'}
        </p>
      );
    }
    case 'verify': {
      const { identical, rows, events, seconds, damaged_events, difference } = job.result;
      return (
        <>
          <p>
            <strong>{identical ? 'Identical' : 'Not identical'}</strong>: {count(rows)} rows compared with a fresh fold
            of {count(events)} events, in {duration(seconds)}.
            {damaged_events ? ` ${count(damaged_events)} events cannot be read.` : ''}
          </p>
          {difference && <pre>{JSON.stringify(difference, null, 2)}</pre>}
        </>
      );
    }
    case 'swap':
    case 'rollback':
      return <Views views={job.result.views} />;
    default:
      return <pre>{JSON.stringify(job.result, null, 2)}</pre>;
  }
}
