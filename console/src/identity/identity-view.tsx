import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { isValidElement, type ReactNode, useMemo, useState } from 'react';
import {
  ApiError,
  type Coordinates,
  type Credonations,
  currentKey,
  type Decisions,
  type Explanation,
  get,
  type Score,
  type Wallets,
} from '../api.ts';
import { count, counted, hundredths, percent, Rating, RATINGS, score, Time } from '../format.tsx';
import { Head } from '../head.tsx';
import { Failure, Loaded, Waiting } from '../loading.tsx';
import { coordinatesOf, hrefOf, setParameters } from '../place.ts';
import { Region } from '../region.tsx';
import { Term } from '../term.tsx';
import { Comparison, PREFIX } from './comparison.tsx';
import { CoordinatePicker } from './coordinate-picker.tsx';
import { EventDetails, EventTable } from './events.tsx';
import { Disputes } from './disputes.tsx';
import { type Axis, describe, type Series, useEvents } from './history.ts';
import { Organization, useIsOrganization } from './organization.tsx';
import { ReliabilityChart } from './reliability-chart.tsx';
import { ScoreChart } from './score-chart.tsx';
import { scorePath, useScore } from './use-score.ts';

/** The parts of the page, which `tab` of the address selects. */
const TABS = {
  overview: 'Overview',
  events: 'Events',
  why: 'Why',
  endorsements: 'Endorsements',
  access: 'Access',
  disputes: 'Disputes',
  time: 'Time travel',
  organization: 'Organization',
} as const;

type Tab = keyof typeof TABS;

export function IdentityView({ trisId, parameters }: { trisId: string; parameters: URLSearchParams }) {
  const coordinates = useMemo(() => coordinatesOf(parameters), [parameters]);
  const isCompared = parameters.has('compare');
  const asked = parameters.get('tab') ?? '';
  const tab = Object.hasOwn(TABS, asked) ? (asked as Tab) : isCompared ? 'time' : 'overview';
  const query = useScore(trisId, coordinates);
  return (
    <>
      <h1 className="id">{trisId}</h1>
      <Loaded query={query} what="the score">
        {(current) => (
          <Content trisId={trisId} current={current} coordinates={coordinates} parameters={parameters} tab={tab} />
        )}
      </Loaded>
      {/* Coordinates that cannot be answered are changed where they are chosen. */}
      {(tab === 'time' || query.error) && (
        <>
          <CoordinatePicker trisId={trisId} coordinates={coordinates} legend={isCompared ? 'A' : 'Score'} prefix="" />
          <p className="actions">
            <button
              type="button"
              aria-pressed={isCompared}
              onClick={() => setParameters({ compare: isCompared ? undefined : 'on', ...without(PREFIX, parameters) })}
            >
              {isCompared ? 'End the comparison' : 'Compare with another time or lens'}
            </button>
          </p>
          {isCompared && <Comparison trisId={trisId} parameters={parameters} a={query} />}
        </>
      )}
    </>
  );
}

function Content(props: {
  trisId: string;
  current: Score;
  coordinates: Coordinates;
  parameters: URLSearchParams;
  tab: Tab;
}) {
  const { trisId, current, coordinates, parameters, tab } = props;
  const axis = parameters.get('axis') === 'number' ? 'number' : 'time';
  // Here, so that a change of the tab keeps what is loaded.
  const history = useEvents(trisId, coordinates, axis);
  const asked = parameters.get('series');
  const series = asked === 'tct' || asked === 'reliability' ? asked : 'score';
  const isOrganization = useIsOrganization(trisId);
  const [opened] = useState(() => Date.now());
  const now = Math.min(opened, Date.parse(current.as_of)) / 1000;
  const events = (
    <History
      history={history}
      eventId={parameters.get('event')}
      axis={axis}
      series={series}
      isList={tab === 'events'}
      reliability={(first) => <ReliabilityChart trisId={trisId} coordinates={coordinates} first={first} now={now} />}
      now={now}
    />
  );
  return (
    <>
      <Summary current={current} coordinates={coordinates} history={history} />
      <nav className="tabs" aria-label="Parts of this page">
        {Object.entries(TABS)
          .filter(([name]) => name !== 'organization' || isOrganization)
          .map(([name, title]) => (
            <a
              key={name}
              href={hrefOf('identity', trisId, new URLSearchParams([...withoutTab(parameters), ['tab', name]]))}
              aria-current={name === tab ? 'page' : undefined}
            >
              {title}
            </a>
          ))}
      </nav>
      {tab === 'overview' && (
        <div className="overview">
          {events}
          <div>
            <Categories metrics={current.disc_metrics} />
            <Verifications current={current} />
          </div>
        </div>
      )}
      {tab === 'events' && events}
      {tab === 'why' && <Explained trisId={trisId} coordinates={coordinates} />}
      {tab === 'endorsements' && <Received trisId={trisId} />}
      {tab === 'organization' && <Organization trisId={trisId} />}
      {tab === 'disputes' && <Disputes trisId={trisId} />}
      {tab === 'access' && (
        <>
          {currentKey() === null && (
            <p>Enter a key with “API key” to see the wallets and the access decisions that it may read.</p>
          )}
          <LinkedWallets trisId={trisId} />
          <AccessDecisions trisId={trisId} />
        </>
      )}
    </>
  );
}

const withoutTab = (parameters: URLSearchParams) => [...parameters].filter(([name]) => name !== 'tab');

/** Removes every parameter with the prefix. */
function without(prefix: string, parameters: URLSearchParams): Record<string, undefined> {
  return Object.fromEntries(
    [...parameters.keys()].filter((name) => name.startsWith(prefix)).map((name) => [name, undefined]),
  );
}

function Summary(props: { current: Score; coordinates: Coordinates; history: ReturnType<typeof useEvents> }) {
  const { current, coordinates, history } = props;
  const { bad_status: bad, evidence, reliability_interval: interval } = current;
  return (
    <section aria-labelledby="score-title">
      <h2 id="score-title" className="hidden">
        Score
      </h2>
      {current.incomplete && (
        <p className="warning">An event about this identity could not be decoded. The score does not count it.</p>
      )}
      {bad && (
        <p className="warning">
          BAD status {bad.level} since <Time value={bad.since} />, reason <code>{bad.reason_code}</code>. It determines
          the score.
        </p>
      )}
      <div className="standing">
        <div>
          <p className="headline">
            <span className="big" data-testid="score">
              {score(current.score)}
            </span>{' '}
            of 100, <Rating name={current.score_rating} />
          </p>
          <Gauge value={current.score} rating={current.score_rating} />
          <p className="small">
            <Term name="DISC score" /> on the bands of the <Term name="Rating">ratings</Term>
          </p>
        </div>
        <dl className="figures">
          <div className="figure">
            <dt>
              <Term name="Reliability" />
            </dt>
            <dd>
              <span className="words">{evidence ? WORDS[evidence.word] : score(current.reliability)}</span>
              <small>
                {hundredths(current.reliability)}
                {interval && `; ${hundredths(interval[0])} to ${hundredths(interval[1])} with a probability of 90 %`}
              </small>
            </dd>
          </div>
          <div className="figure">
            <dt>
              <Term name="TCT" />
            </dt>
            <dd>
              <span className="words">{count(current.total_tct)}</span>
              <small>
                {count(current.earned_tct)} earned, {count(current.forfeited_tct)}{' '}
                <Term name="Forfeits">forfeited</Term>
              </small>
            </dd>
          </div>
        </dl>
      </div>
      <LatestEvent history={history} />
      <p className="small">
        As of <Time value={current.as_of} />, <Term name="Position">position</Term> <code>{current.position}</code>,{' '}
        <Term name="Lens">lens</Term> <code>{current.lens.policy_id ?? 'model'}</code>, model{' '}
        <code>{current.model.id}</code>.{' '}
        <a href={hrefOf('identity', current.tris_id, pinned(current, coordinates))}>Link to exactly these numbers</a>
      </p>
    </section>
  );
}

/** The coordinates of an answer: asked for again with them, the numbers are the same at any time. */
function pinned(current: Score, { known_at }: Coordinates): URLSearchParams {
  return new URLSearchParams({
    as_of: current.as_of,
    ...(known_at === undefined ? { as_of_position: current.position } : { known_at }),
    vp: current.lens.policy_id ?? 'model',
    model: current.model.id,
  });
}

/** How much the reliability can be relied on, before its number. */
const WORDS: Record<NonNullable<Score['evidence']>['word'], string> = {
  none: 'No recent evidence',
  thin: 'Thin recent evidence',
  some: 'Some recent evidence',
  solid: 'Solid recent evidence',
};

/** Where a score is on the bands of the ratings, 0 to 100. */
function Gauge({ value, rating }: { value: number; rating: string }) {
  return (
    <div className="gauge" role="img" aria-label={`${score(value)} of 100, ${rating}`}>
      {RATINGS.map(([name, below], i) => {
        const from = RATINGS[i - 1]?.[1] ?? 0;
        return (
          <span
            key={name}
            className={`rating-${name.toLowerCase().replace(' ', '-')}${name === rating ? ' here' : ''}`}
            style={{ width: `${below - from}%` }}
          >
            <small>{count(from)}</small>
          </span>
        );
      })}
      <span className="needle" style={{ left: `${value}%` }} />
    </div>
  );
}

/** The latest event in the log, and what it did. Nothing until all events are there. */
function LatestEvent({ history: { events, hasNextPage } }: { history: ReturnType<typeof useEvents> }) {
  if (!events || events.entries.length === 0 || hasNextPage) return <p className="latest">&nbsp;</p>;
  const index = events.entries.length - 1;
  const { what, from, to } = describe(events, index);
  const { tct_delta, occurred_at, score_rating } = events.entries[index]!;
  const before = events.entries[index - 1]?.score_rating;
  const did =
    tct_delta === 0 ? 'moved no TCT' : `${tct_delta < 0 ? 'forfeited' : 'earned'} ${count(Math.abs(tct_delta))} TCT`;
  return (
    <p className="latest">
      Latest event, <Time value={occurred_at} />: {what} {did};{' '}
      {from === null
        ? `the score began at ${score(to)}`
        : score(from) === score(to)
          ? `the score stayed at ${score(to)}`
          : `the score went from ${score(from)} to ${score(to)}`}
      {before !== undefined && before !== score_rating && `, the rating from ${before} to ${score_rating}`}.
    </p>
  );
}

const SERIES: Record<Series, string> = { score: 'Score', reliability: 'Reliability', tct: 'Net TCT' };

/** The line of the scores, or the list of the events. */
function History(props: {
  history: ReturnType<typeof useEvents>;
  eventId: string | null;
  axis: Axis;
  series: Series;
  isList: boolean;
  /** In seconds. */
  now: number;
  reliability: (first: number) => ReactNode;
}) {
  const { eventId, axis, series, isList, now, reliability } = props;
  const { events, error, isFetching, hasNextPage, fetchNextPage, failureReason } = props.history;
  const selected = useMemo(
    () => (eventId === null ? -1 : (events?.entries.findIndex(({ event_id }) => event_id === eventId) ?? -1)),
    [events, eventId],
  );
  const selectEvent = (index: number) => setParameters({ event: events?.entries[index]?.event_id });
  return (
    <section aria-labelledby="history-title">
      <h2 id="history-title">{isList ? 'Events' : `${SERIES[series]} over time`}</h2>
      {!events && !error && <Waiting what="the events" reason={failureReason} />}
      {error && <Failure error={error} retry={() => void fetchNextPage()} />}
      {events?.entries.length === 0 && <p>No event counts at this time.</p>}
      {events && events.entries.length > 0 && (
        <>
          {!isList && (
            <>
              <div className="switches" role="group" aria-label="What the line shows">
                {Object.entries(SERIES).map(([name, title]) => (
                  <button
                    key={name}
                    type="button"
                    aria-pressed={name === series}
                    onClick={() => setParameters({ series: name === 'score' ? undefined : name })}
                  >
                    {title}
                  </button>
                ))}
                {series !== 'reliability' && (
                  <label>
                    Axis{' '}
                    <select
                      value={axis}
                      onChange={({ target }) =>
                        setParameters({ axis: target.value === 'time' ? undefined : target.value })
                      }
                    >
                      <option value="time">time</option>
                      <option value="number">number of the event</option>
                    </select>
                  </label>
                )}
              </div>
              {series === 'reliability' ? (
                reliability(Date.parse(events.entries[0]!.occurred_at) / 1000)
              ) : (
                <ScoreChart
                  key={`${axis} ${series}`}
                  events={events}
                  axis={axis}
                  series={series}
                  now={now}
                  selected={selected}
                  onSelect={selectEvent}
                />
              )}
              <p className="small">
                {series === 'reliability'
                  ? 'The shaded interval has a probability of 90 %.'
                  : 'Circles earn TCT, triangles forfeit it, squares change a status.'}
                {events.late > 0 &&
                  series !== 'reliability' &&
                  ` ${counted(events.late, 'event')} recorded after later ones: by time, each is drawn where the one before it in the log is.`}
              </p>
            </>
          )}
          {selected >= 0 && <EventDetails events={events} index={selected} />}
          <p role="status" className="small">
            {counted(events.entries.length, 'event')}
            {hasNextPage ? ' loaded' : ''}
            {isFetching ? ', loading more…' : '.'}
          </p>
          {hasNextPage && !isFetching && !error && (
            <button type="button" onClick={() => void fetchNextPage()}>
              Load more events
            </button>
          )}
          {isList && <EventTable events={events} selected={selected} onSelect={selectEvent} />}
        </>
      )}
    </section>
  );
}

function Categories({ metrics }: { metrics: Record<string, number> }) {
  const known = Object.entries(metrics).filter(([, health]) => health > 0);
  const others = Object.keys(metrics).length - known.length;
  return (
    <section aria-labelledby="categories-title">
      <h2 id="categories-title">
        <Term name="Health">Health</Term> by category, 0 to 1
      </h2>
      {known.map(([category, health]) => (
        <div key={category} className="split">
          <span>{category}</span>
          <span className="number">{hundredths(health)}</span>
          <Bar share={health} />
        </div>
      ))}
      <p className="small">
        {known.length === 0
          ? 'No category has recent evidence.'
          : others > 0 && `No recent evidence in the ${count(others)} others.`}
      </p>
    </section>
  );
}

function Bar({ share }: { share: number }) {
  return (
    <span className="bar" aria-hidden="true">
      <span style={{ width: `${Math.min(1, Math.max(0, share)) * 100}%` }} />
    </span>
  );
}

function Verifications({ current }: { current: Score }) {
  return (
    <section aria-labelledby="verifications-title">
      <h2 id="verifications-title">Verifications</h2>
      {current.verification.length === 0 && <p>None at this time.</p>}
      {current.verification.map(({ status, issuer, scheme, expires_at, accredited }) => (
        <p key={`${status} ${issuer} ${scheme}`} className="card">
          <strong>{status}</strong>
          <span>
            by {issuer}, scheme {scheme}
          </span>
          <span>
            {expires_at ? (
              <>
                expires <Time value={expires_at} />
              </>
            ) : (
              'does not expire'
            )}
          </span>
          {!accredited && <span>The issuer is not accredited: counts only in policies that name it.</span>}
        </p>
      ))}
    </section>
  );
}

function Explained({ trisId, coordinates }: { trisId: string; coordinates: Coordinates }) {
  const query = useQuery({
    queryKey: ['explain', trisId, coordinates],
    queryFn: ({ signal }) => get<Explanation>(scorePath(trisId, '/explain'), { ...coordinates }, signal),
  });
  return (
    <section aria-labelledby="explain-title">
      <h2 id="explain-title">What the score consists of</h2>
      <Loaded query={query} what="the explanation">
        {({ summary, contributions, forfeits, platforms, counterparties, next_rating: next }) => (
          <>
            {summary && <p>{summary}</p>}
            {next && (
              <p>
                {count(next.tct_needed)} TCT are missing for {next.rating}
                {next.days_needed != null && `, which takes at least ${counted(next.days_needed, 'day')}`}.
              </p>
            )}
            <Rows
              caption="Contributions"
              empty="Nothing was earned."
              head={['Metric', 'Actions', 'TCT', 'Share', 'Last']}
              rows={contributions.map((c) => [
                c.metric,
                count(c.actions),
                count(c.tct),
                percent(c.share),
                <Time key="last" value={c.last_at} />,
              ])}
            />
            <Rows
              caption="Forfeits"
              empty="Nothing was forfeited."
              head={['Metric', 'Actions', 'Flagged TCT', 'Forfeited TCT', 'Last']}
              rows={forfeits.map((f) => [
                f.metric,
                count(f.actions),
                count(f.flagged_tct),
                count(f.forfeited_tct),
                <Time key="last" value={f.last_at} />,
              ])}
            />
            <Rows
              caption="Platforms with the largest effect"
              empty="No platform."
              head={['Platform', 'Actions', 'TCT', 'Flagged TCT']}
              rows={platforms.map((p) => [p.platform_id, count(p.actions), count(p.tct), count(p.flagged_tct)])}
            />
            {counterparties && (
              <Rows
                caption="Counterparties with the largest effect"
                empty="No counterparty."
                head={['Counterparty', 'Actions', 'TCT', 'Flagged TCT']}
                rows={counterparties.map((c) => [
                  linkTo('identity', c.tris_id),
                  count(c.actions),
                  count(c.tct),
                  count(c.flagged_tct),
                ])}
              />
            )}
          </>
        )}
      </Loaded>
    </section>
  );
}

const CREDONATIONS = 1000;

function Received({ trisId }: { trisId: string }) {
  const query = useInfiniteQuery({
    queryKey: ['credonations', trisId],
    queryFn: ({ pageParam: cursor, signal }) =>
      get<Credonations>(`api/tris-validations/${encodeURIComponent(trisId)}`, { limit: CREDONATIONS, cursor }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
  });
  const { data, error, hasNextPage, isFetching, fetchNextPage, failureReason } = query;
  const endorsers = useMemo(() => byEndorser(data?.pages ?? []), [data]);
  const total = data?.pages.reduce((sum, { validations }) => sum + validations.length, 0) ?? 0;
  return (
    <section aria-labelledby="credonations-title">
      <h2 id="credonations-title">
        <Term name="Credonation">Credonations</Term> received
      </h2>
      {!data && !error && <Waiting what="the credonations" reason={failureReason} />}
      {error && <Failure error={error} retry={() => void fetchNextPage()} />}
      {data && (
        <>
          {total > 0 && (
            <p className="small">
              {hasNextPage ? `The first ${count(total)}` : count(total)}, of all times, by endorser.
            </p>
          )}
          <Rows
            caption="By endorser"
            empty="None."
            head={['From', 'Number', 'TCT', 'Last']}
            rows={endorsers.map(({ from, number, amount, last }) => [
              linkTo('identity', from),
              count(number),
              count(amount),
              <Time key="last" value={last} />,
            ])}
          />
          {hasNextPage && (
            <button type="button" disabled={isFetching} onClick={() => void fetchNextPage()}>
              Load more credonations
            </button>
          )}
        </>
      )}
    </section>
  );
}

function byEndorser(pages: readonly Credonations[]) {
  const found = new Map<string, { from: string; number: number; amount: number; last: string }>();
  for (const { from, amount, timestamp } of pages.flatMap((page) => page.validations)) {
    const sum = found.get(from) ?? { from, number: 0, amount: 0, last: timestamp };
    sum.number++;
    sum.amount += amount;
    if (timestamp > sum.last) sum.last = timestamp;
    found.set(from, sum);
  }
  return [...found.values()].sort((a, b) => b.amount - a.amount);
}

/** Only for keys that may read the wallets; without one the section is absent. */
function LinkedWallets({ trisId }: { trisId: string }) {
  const query = useQuery({
    queryKey: ['wallets', trisId],
    queryFn: ({ signal }) => get<Wallets>(`v1/wallets/${encodeURIComponent(trisId)}`, { limit: 1000 }, signal),
    enabled: currentKey() !== null,
  });
  const { status } = (query.error as ApiError | null) ?? { status: 200 };
  if (currentKey() === null || status === 403 || status === 404) return null;
  return (
    <section aria-labelledby="wallets-title">
      <h2 id="wallets-title">Wallets</h2>
      <Loaded query={query} what="the wallets">
        {({ wallets }) => (
          <Rows
            caption="Linked wallets"
            empty="None that this key may see."
            head={['Wallet', 'Proof', 'Linked']}
            rows={wallets.map(({ wallet, proof, linked_at }) => [
              wallet,
              proof,
              <Time key="linked" value={linked_at} />,
            ])}
          />
        )}
      </Loaded>
    </section>
  );
}

const DECISIONS = 100;

/** Only for keys that may read decisions; without one the section is absent. */
function AccessDecisions({ trisId }: { trisId: string }) {
  const query = useInfiniteQuery({
    queryKey: ['decisions', trisId],
    queryFn: ({ pageParam: cursor, signal }) =>
      get<Decisions>('v1/access/decisions', { subject: trisId, limit: DECISIONS, cursor }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
    enabled: currentKey() !== null,
  });
  const { data, error, hasNextPage, isFetching, fetchNextPage, failureReason } = query;
  if (currentKey() === null || (error as ApiError | null)?.status === 403) return null;
  const decisions = data?.pages.flatMap((page) => page.decisions) ?? [];
  return (
    <section aria-labelledby="decisions-title">
      <h2 id="decisions-title">Access decisions</h2>
      {!data && !error && <Waiting what="the access decisions" reason={failureReason} />}
      {error && <Failure error={error} retry={() => void fetchNextPage()} />}
      {data && (
        <>
          <Rows
            caption="Checks"
            empty="None that this key may see."
            head={['Checked', 'Policy', 'Decision', 'Score', 'Because of', 'By']}
            rows={decisions.map((decision) => [
              <Time key={decision.jti} value={decision.checked_at} />,
              linkTo('lab', decision.policy_id),
              decision.granted ? (decision.revoked ? 'granted, token revoked' : 'granted') : 'denied',
              decision.score === null ? '' : score(decision.score),
              decision.reasons.map(({ rule, outcome }) => `${rule} ${outcome}`).join(', '),
              decision.checked_by,
            ])}
          />
          {hasNextPage && (
            <button type="button" disabled={isFetching} onClick={() => void fetchNextPage()}>
              Load more decisions
            </button>
          )}
        </>
      )}
    </section>
  );
}

const linkTo = (view: string, id: string) => (
  <a key={id} href={hrefOf(view, id)}>
    {id}
  </a>
);

const SHOWN_ROWS = 25;

/** A table of which the first column names the row. More than a few rows are shown on request. */
function Rows(props: { caption: string; empty: string; head: string[]; rows: React.ReactNode[][] }) {
  const { caption, empty, head, rows } = props;
  if (rows.length === 0) {
    return (
      <p>
        {caption}: {empty}
      </p>
    );
  }
  const body = (some: React.ReactNode[][]) => (
    <Region label={caption}>
      <table>
        <Head columns={head} numbers={head.filter((_, i) => isNumber(rows[0]![i]))} />
        <tbody>
          {some.map(([name, ...cells]) => (
            <tr key={keyOf(name)}>
              <th scope="row">{name}</th>
              {cells.map((cell, i) => (
                <td key={head[i + 1]} className={isNumber(cell) ? 'number' : ''}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Region>
  );
  return (
    <>
      <h3>{caption}</h3>
      {body(rows.slice(0, SHOWN_ROWS))}
      {rows.length > SHOWN_ROWS && (
        <details>
          <summary>{count(rows.length - SHOWN_ROWS)} more</summary>
          {body(rows.slice(SHOWN_ROWS))}
        </details>
      )}
    </>
  );
}

/** An element in the first column has a key; a text is one. */
const keyOf = (name: React.ReactNode): string => (isValidElement(name) ? String(name.key) : String(name));

const isNumber = (cell: React.ReactNode): boolean => typeof cell === 'string' && /^[−+]?\d/.test(cell);
