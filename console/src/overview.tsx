import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { currentKey, type Decisions, get, type Overview, type Schemas } from './api.ts';
import { count, counted, percent, Rating, score, Time } from './format.tsx';
import { Needs, useMay } from './lab/needs.tsx';
import { useAccessPolicies, usePolicies } from './lab/policies.ts';
import { Loaded } from './loading.tsx';
import { hrefOf } from './place.ts';
import { duration } from './rate.ts';
import { Term } from './term.tsx';

const EVERY_MS = 15_000;
/** Checks that are counted by policy. */
const CHECKS = 100;
const DISPUTES = 100;

/** The start page: how much there is, what happens, and what waits. */
export function OverviewView() {
  const mayOperate = useMay('ops');
  const overview = useQuery({
    queryKey: ['overview'],
    queryFn: ({ signal }) => get<Overview>('v1/disc/overview', {}, signal),
    enabled: mayOperate,
    refetchInterval: EVERY_MS,
  });
  const { data } = overview;
  return (
    <>
      <h1>Overview</h1>
      {currentKey() === null && (
        <p>
          Enter an API key at the top to see all of this page; a development server has made one, in the file{' '}
          <code>dev-api-key</code> of its data folder. The <a href={hrefOf('live')}>latest changes</a> need none while
          reads are public.
        </p>
      )}
      <div className="tiles">
        <Tile label="Identities" value={data?.identities} note={<a href={hrefOf('live')}>Latest changes</a>} />
        <Tile label="Actions" value={data?.actions} note="recorded, withdrawn ones too" />
        <Tile label="Organizations" value={data?.organizations} note="registered" />
        <PoliciesTile />
      </div>
      <div className="grid">
        <Panel title="The last hour, by the minute" className="wide">
          <Needs scope="ops" what="The traffic of this process" />
          {mayOperate && (
            <Loaded query={overview} what="the traffic">
              {({ minutes }) => <Traffic minutes={minutes} />}
            </Loaded>
          )}
        </Panel>
        <Service />
        <Panel title="Ratings that changed last" className="wide">
          <Needs scope="ops" what="The list" />
          {mayOperate && (
            <Loaded query={overview} what="the changes">
              {({ rating_changes }) => <RatingChanges changes={rating_changes} />}
            </Loaded>
          )}
        </Panel>
        <ChecksByPolicy />
        <Waiting />
      </div>
    </>
  );
}

function Panel({ title, className = '', children }: { title: ReactNode; className?: string; children: ReactNode }) {
  return (
    <section className={className}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** A number, or a dash where the key may not read it. */
function Tile({ label, value, note }: { label: ReactNode; value: number | null | undefined; note?: ReactNode }) {
  const mayOperate = useMay('ops');
  return (
    <section className="tile">
      <h2>{label}</h2>
      <p className="big">{value == null ? '–' : count(value)}</p>
      <p className="small">
        {value == null && !mayOperate ? (
          <>
            needs a key with <code>ops</code>
          </>
        ) : (
          note
        )}
      </p>
    </section>
  );
}

function PoliciesTile() {
  const vps = usePolicies().data;
  const aps = useAccessPolicies().data;
  const lenses = vps?.filter(({ active_for }) => active_for.length > 0).length ?? 0;
  const checked = aps?.filter(({ status }) => status === 'active').length ?? 0;
  return (
    <section className="tile">
      <h2>Active policies</h2>
      <p className="big">{vps && aps ? count(lenses + checked) : '–'}</p>
      <p className="small">
        <a href={hrefOf('lab')}>
          {lenses === 1 ? '1 lens' : `${count(lenses)} lenses`}, {count(checked)} for access
        </a>
      </p>
    </section>
  );
}

type Minute = Overview['minutes'][number];

function Traffic({ minutes }: { minutes: readonly Minute[] }) {
  const checks = ({ granted, denied }: Minute) => granted + denied;
  const granted = minutes.reduce((sum, minute) => sum + minute.granted, 0);
  return (
    <>
      <Bars title="Relays" minutes={minutes} parts={[({ relayed }) => relayed]} />
      <Bars
        title="Access checks"
        minutes={minutes}
        parts={[({ granted }) => granted, ({ denied }) => denied]}
        note={`${count(granted)} granted, ${count(minutes.reduce((sum, minute) => sum + checks(minute), 0) - granted)} denied`}
      />
      <p className="axis small">
        <span>60 minutes ago</span>
        <span>kept in memory by this process</span>
        <span>now</span>
      </p>
    </>
  );
}

const BAR = 10;
const HEIGHT = 56;

/** A bar for each minute, of parts on top of each other. */
function Bars(props: {
  title: string;
  minutes: readonly Minute[];
  parts: readonly ((minute: Minute) => number)[];
  note?: string;
}) {
  const { title, minutes, parts, note } = props;
  const sumOf = (minute: Minute) => parts.reduce((sum, part) => sum + part(minute), 0);
  const sums = minutes.map(sumOf);
  const most = Math.max(...sums, 0);
  const all = sums.reduce((sum, one) => sum + one, 0);
  const text = `${count(all)}, at most ${count(most)} a minute`;
  return (
    <figure className="bars">
      <figcaption>
        <strong>{title}</strong> <span className="small">{note ? `${text}; ${note}` : text}</span>
      </figcaption>
      <svg
        role="img"
        aria-label={`${title}: ${text}`}
        viewBox={`0 0 ${minutes.length * BAR} ${HEIGHT}`}
        preserveAspectRatio="none"
      >
        {minutes.flatMap((minute, i) => {
          let below = 0;
          return parts.map((part, n) => {
            const height = most === 0 ? 0 : (part(minute) / most) * HEIGHT;
            below += height;
            const y = HEIGHT - below;
            return (
              <rect
                key={`${minute.at} ${n}`}
                className={`part-${n}`}
                x={i * BAR + 1}
                y={y}
                width={BAR - 2}
                height={height}
              />
            );
          });
        })}
      </svg>
    </figure>
  );
}

const WORDS: Record<string, string> = { event_store: 'Log', projections: 'Read models', checkpoints: 'Checkpoints' };

/** The parts that work and those that do not, and how far the read models are behind. */
function Service() {
  const mayOperate = useMay('ops');
  const ready = useQuery({
    queryKey: ['ready'],
    queryFn: ({ signal }) => get<Schemas['ReadinessDto']>('health/ready', {}, signal),
    refetchInterval: EVERY_MS,
    retry: false,
  });
  const { data: status } = useQuery(STATUS(mayOperate));
  const serving = status?.generations.filter(({ serves }) => serves.length > 0) ?? [];
  return (
    <Panel title="Service">
      <Loaded query={ready} what="its health">
        {({ checks }) => (
          <ul className="lines">
            {checks.map(({ name, status: state, detail }) => (
              <li key={name}>
                <span className={`dot ${state}`} aria-hidden="true" />
                <span>
                  {WORDS[name] ?? name} <span className={state === 'ok' ? 'hidden' : 'problem'}>{state}</span>{' '}
                  <small>{detail}</small>
                </span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <Needs scope="ops" what="The lag" />
      {status && (
        <dl className="details">
          <dt>Lag</dt>
          <dd>{duration(Math.max(0, ...serving.map(({ lag_seconds }) => lag_seconds)))}</dd>
          <dt>Events</dt>
          <dd>{status.events === null ? 'not counted' : count(status.events)}</dd>
        </dl>
      )}
    </Panel>
  );
}

const STATUS = (enabled: boolean) => ({
  queryKey: ['status'],
  queryFn: ({ signal }: { signal: AbortSignal }) => get<Schemas['StatusDto']>('v1/ops/status', {}, signal),
  enabled,
  refetchInterval: EVERY_MS,
});

function RatingChanges({ changes }: { changes: Overview['rating_changes'] }) {
  if (changes.length === 0) return <p>No rating has changed lately.</p>;
  return (
    <ul className="lines">
      {changes.map(({ tris_id, from, to, score: after, recorded_at }) => (
        <li key={tris_id}>
          <a href={hrefOf('identity', tris_id)}>{tris_id}</a>
          <span className="change">
            <Rating name={from} /> <span aria-label="to">→</span> <Rating name={to} />
          </span>
          <span className="number">{score(after)}</span>
          <small>
            <Time value={recorded_at} />
          </small>
        </li>
      ))}
    </ul>
  );
}

/** Of the latest checks that the key may read. */
function ChecksByPolicy() {
  const query = useQuery({
    queryKey: ['decisions', 'latest'],
    queryFn: ({ signal }) => get<Decisions>('v1/access/decisions', { limit: CHECKS }, signal),
    enabled: useMay('audit:read'),
  });
  const policies = new Map<string, { granted: number; denied: number }>();
  for (const { policy_id, granted } of query.data?.decisions ?? []) {
    const counts = policies.get(policy_id) ?? { granted: 0, denied: 0 };
    counts[granted ? 'granted' : 'denied']++;
    policies.set(policy_id, counts);
  }
  return (
    <Panel title="Checks by policy">
      <Needs scope="audit:read" what="The list" />
      {useMay('audit:read') && (
        <Loaded query={query} what="the decisions">
          {({ decisions, next_cursor }) => (
            <>
              {[...policies].map(([name, { granted, denied }]) => (
                <div key={name} className="split">
                  <a href={hrefOf('lab', name)}>{name}</a>
                  <small>
                    {count(granted)} granted, {count(denied)} denied
                  </small>
                  <span className="bar denied" aria-hidden="true">
                    <span style={{ width: percentOf(granted, granted + denied) }} />
                  </span>
                </div>
              ))}
              <p className="small">
                {decisions.length === 0
                  ? 'Nobody has been checked yet.'
                  : `Of the ${next_cursor === null ? '' : 'latest '}${counted(decisions.length, 'check')}: ${percent(decisions.filter(({ granted }) => granted).length / decisions.length)} granted.`}
              </p>
            </>
          )}
        </Loaded>
      )}
    </Panel>
  );
}

const percentOf = (part: number, all: number) => `${(100 * part) / all}%`;

/** What somebody has to look at. */
function Waiting() {
  const { data: status } = useQuery(STATUS(useMay('ops')));
  const { data: disputes } = useQuery({
    queryKey: ['disputes', 'open'],
    queryFn: ({ signal }) => get<Schemas['DisputesDto']>('v1/disputes', { open: 'true', limit: DISPUTES }, signal),
    enabled: currentKey() !== null,
    retry: false,
  });
  const open = disputes && `${count(disputes.disputes.length)}${disputes.next_cursor === null ? '' : ' or more'}`;
  const rows: [label: string, value: string | undefined, href: string][] = [
    ['Open disputes', open, hrefOf('operations')],
    ['Dead letters', status && count(status.dead_letters.open), hrefOf('operations')],
    ['Failed jobs', status && count(status.failed_jobs.count), hrefOf('operations')],
  ];
  return (
    <Panel title="What waits" className="full">
      <div className="tiles plain">
        {rows.map(([label, value, href]) => (
          <p key={label}>
            <span className="big">{value ?? '–'}</span>{' '}
            {value === undefined || value === '0' ? label : <a href={href}>{label}</a>}
          </p>
        ))}
      </div>
      <Needs scope="ops" what="What waits for operators" />
      {disputes?.disputes.slice(0, 5).map(({ dispute_id, tris_id, about, opened_at }) => (
        <p key={dispute_id}>
          <a href={hrefOf('identity', tris_id, new URLSearchParams({ tab: 'disputes' }))}>{tris_id}</a> disputes{' '}
          {about === 'action' ? 'an action' : about === 'verification' ? 'a verification' : 'the BAD status'},{' '}
          <Time value={opened_at} />
        </p>
      ))}
      <p className="small">
        A <Term name="TRIS">TRIS id</Term> names an identity, and its <Term name="DISC score">score</Term> says how
        credible it is. The field at the top finds one by the beginning of its id.
      </p>
    </Panel>
  );
}
