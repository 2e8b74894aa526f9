import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type Schemas, get, post, remove } from '../api.ts';
import { count } from '../format.tsx';
import { Failure, Loaded } from '../loading.tsx';
import { duration, useRate } from '../rate.ts';
import { Confirmed } from './confirmed.tsx';
import { Table } from './table.tsx';

const EVERY_MS = 2_000;

type Generation = Schemas['GenerationDto'];

type Status = Schemas['StatusDto'];

type Started = Schemas['OperationStartedDto'];

/** The log, and the generations of read models with what can be done with them. */
export function ReadModels({ onStarted }: { onStarted: (jobId: string) => void }) {
  const status = useQuery({
    queryKey: ['operations', 'status'],
    queryFn: ({ signal }) => get<Status>('v1/ops/status', {}, signal),
    refetchInterval: EVERY_MS,
  });
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
const counted = (value: number | null): string => (value === null ? 'being counted' : count(value));

function Log({ status, at }: { status: Status; at: number }) {
  const rate = useRate(status.events, at);
  const serving = status.generations.filter(({ serves }) => serves.length > 0);
  const lag = serving.reduce<number | null>(
    (most, { lag_events }) => (most === null || lag_events === null ? null : Math.max(most, lag_events)),
    0,
  );
  const seconds = Math.max(0, ...serving.map(({ lag_seconds }) => lag_seconds));
  const figures: [string, string, string][] = [
    ['Head', numberOf(status.head), `position of log ${status.log_id}`],
    ['Events', counted(status.events), 'in the log'],
    ['Throughput', rate === null ? '…' : `${count(rate)}/s`, 'events recorded in the last 20 s'],
    ['Lag', lag === null ? 'being counted' : `${count(lag)} events`, `reads are ${duration(seconds)} behind`],
    ['Dead letters', count(status.dead_letters.open), `open; ${count(status.dead_letters.acknowledged)} acknowledged`],
    ['Failed jobs', count(status.failed_jobs.count), 'of the newest 50'],
  ];
  return (
    <section aria-labelledby="log-title">
      <h2 id="log-title">Log</h2>
      <dl className="figures">
        {figures.map(([name, value, remark]) => (
          <div key={name} className="figure">
            <dt>{name}</dt>
            <dd>
              <span className="big">{value}</span>
              <small>{remark}</small>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Generations({ status, at, onStarted }: { status: Status; at: number; onStarted: (jobId: string) => void }) {
  const client = useQueryClient();
  const { generations, previous_views } = status;
  const views = [...new Set(generations.flatMap((generation) => Object.keys(generation.views)))];
  const there = new Set(generations.map(({ id }) => id));
  const isThere = previous_views !== null && Object.values(previous_views).every((id) => there.has(id));
  const started = ({ job_id }: Started) => onStarted(job_id);
  const verify = useMutation({
    mutationFn: () => post<Started>('v1/ops/verify', undefined),
    onSuccess: (answer) => {
      started(answer);
      void client.invalidateQueries({ queryKey: ['operations'] });
    },
  });
  return (
    <section aria-labelledby="generations-title">
      <h2 id="generations-title">Generations of read models</h2>
      {generations.length === 0 ? (
        <p>There is none yet: a worker builds the first one.</p>
      ) : (
        <Table label="List of generations" columns={['Generation', 'Status', 'Serves', 'Checkpoint', 'Lag', 'Actions']}>
          {generations.map((generation) => (
            <Row key={generation.id} generation={generation} status={status} at={at} onStarted={started} />
          ))}
        </Table>
      )}
      <p className="actions">
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
          <p>
            Builds a generation from the log, beside the one that serves. Reads and writes go on meanwhile. A rebuild
            that was interrupted is continued.
          </p>
          <p>
            <label>
              Views{' '}
              <select name="view">
                <option value="">all</option>
                {views.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            </label>
          </p>
          <p>
            <label>
              Serve it once it is built <input type="checkbox" name="swap" />
            </label>
          </p>
        </Confirmed>
        {isThere && (
          <Confirmed
            label="Roll back"
            title="Roll back the last swap"
            verb="Roll back"
            act={() => post<Started>('v1/ops/rollback', undefined)}
            onDone={started}
          >
            <p>Every view is served again as before the last swap:</p>
            <Views views={previous_views} />
          </Confirmed>
        )}
        <button type="button" disabled={verify.isPending} onClick={() => verify.mutate()}>
          Verify
        </button>
      </p>
      {verify.error && <Failure error={verify.error} />}
    </section>
  );
}

/** Which generation serves each view. */
export function Views({ views }: { views: Record<string, string> }) {
  const ids = [...new Set(Object.values(views))];
  const named = ids.map((id) => ({ id, names: Object.keys(views).filter((name) => views[name] === id) }));
  return (
    <ul>
      {named.map(({ id, names }) => (
        <li key={id}>
          {id}: {ids.length === 1 ? 'all views' : names.join(', ')}
        </li>
      ))}
    </ul>
  );
}

function Row(props: { generation: Generation; status: Status; at: number; onStarted: (started: Started) => void }) {
  const { generation, status, at, onStarted } = props;
  const { id, serves, views, applied_events, lag_events, lag_seconds } = generation;
  const rate = useRate(applied_events, at);
  const isBuilding = generation.status === 'building';
  const all = serves.length === Object.keys(views).length;
  return (
    <tr>
      <th scope="row">{id}</th>
      <td>
        {generation.of_this_log ? generation.status : 'of another log'}
        {isBuilding && status.events !== null && applied_events !== null && (
          <>
            <progress aria-label={`Events applied to ${id}`} max={Math.max(1, status.events)} value={applied_events} />
            <small>
              {count(applied_events)} of {count(status.events)}
              {rate ? `, ${count(rate)}/s` : ''}
            </small>
          </>
        )}
      </td>
      <td title={Object.keys(views).join(', ')}>{all ? 'all its views' : serves.join(', ') || 'nothing'}</td>
      <td>{numberOf(generation.position)}</td>
      <td>
        {counted(lag_events)}
        {lag_events === 0 ? '' : `, ${duration(lag_seconds)}`}
      </td>
      <td className="actions">
        {generation.status === 'ready' && !all && (
          <Confirmed
            label="Swap to"
            describes={id}
            title={`Swap to ${id}`}
            verb={`Serve ${id}`}
            act={() => post<Started>('v1/ops/swap', { generation: id })}
            onDone={onStarted}
          >
            <p>
              {id} serves {Object.keys(views).join(', ')} for all readers at once. What served before is kept for a
              rollback.
            </p>
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
            <p>
              {id} is deleted and its space is freed.{' '}
              {isKeptForRollback(status, id) && 'The last swap can then not be rolled back.'}
            </p>
          </Confirmed>
        )}
      </td>
    </tr>
  );
}

const isKeptForRollback = ({ previous_views }: Status, id: string): boolean =>
  Object.values(previous_views ?? {}).includes(id);
