import {
  Anchor,
  Box,
  Button,
  Code,
  Group,
  NativeSelect,
  Paper,
  Progress,
  Stack,
  Text,
  Title,
  VisuallyHidden,
} from '@mantine/core';
import { type ReactNode, useMemo, useState } from 'react';
import { ApiError, type Coordinates, currentSession, hasCredential, type Score, type Schemas } from '../api.ts';
import { count, counted, hundredths, linkTo, percent, Rating, RATINGS, score, Time } from '../format.tsx';
import { Empty, Loaded, Warning } from '../loading.tsx';
import { Organization, useIsOrganization } from '../organization/organization.tsx';
import { Paged } from '../paged.tsx';
import { Figures, Note, Panel } from '../panel.tsx';
import { coordinatesOf, hrefOf, setParameters } from '../place.ts';
import { Rows } from '../table.tsx';
import { Tabs } from '../tabs.tsx';
import { useGet } from '../queries.ts';
import { Term } from '../term.tsx';
import { Comparison, PREFIX } from './comparison.tsx';
import { CoordinatePicker } from './coordinate-picker.tsx';
import { DecisionsAbout, Outcome } from './decisions.tsx';
import { EventDetails, EventTable } from './events.tsx';
import { Disputes } from './disputes.tsx';
import { type Axis, describe, type Series, useEvents } from './history.ts';
import { ReliabilityChart } from './reliability-chart.tsx';
import { ScoreChart } from './score-chart.tsx';
import { Standing } from './standing.tsx';
import { scorePath, useScore } from './queries.ts';

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
  standing: 'Statements',
} as const;

type Tab = keyof typeof TABS;

export function IdentityView({ id: trisId, parameters }: { id: string; parameters: URLSearchParams }) {
  const coordinates = useMemo(() => coordinatesOf(parameters), [parameters]);
  const isCompared = parameters.has('compare');
  const asked = parameters.get('tab') ?? '';
  const tab = Object.hasOwn(TABS, asked) ? (asked as Tab) : isCompared ? 'time' : 'overview';
  const query = useScore(trisId, coordinates);
  const axis = parameters.get('axis') === 'number' ? 'number' : 'time';
  // Here, so that it is asked for beside the score, and a change of the tab keeps what is loaded.
  const history = useEvents(trisId, coordinates, axis);
  return (
    <Stack>
      <Title order={1}>{trisId}</Title>
      <Loaded query={query} what="the score">
        {(current) => <Content {...{ trisId, current, coordinates, parameters, tab, axis, history }} />}
      </Loaded>
      {/* Coordinates that cannot be answered are changed where they are chosen. */}
      {(tab === 'time' || query.error) && (
        <>
          <CoordinatePicker trisId={trisId} coordinates={coordinates} legend={isCompared ? 'A' : 'Score'} prefix="" />
          <Group>
            <Button
              aria-pressed={isCompared}
              onClick={() => setParameters({ compare: isCompared ? undefined : 'on', ...without(PREFIX, parameters) })}
            >
              {isCompared ? 'End the comparison' : 'Compare with another time or lens'}
            </Button>
          </Group>
          {isCompared && <Comparison trisId={trisId} parameters={parameters} a={query} />}
        </>
      )}
    </Stack>
  );
}

function Content(props: {
  trisId: string;
  current: Score;
  coordinates: Coordinates;
  parameters: URLSearchParams;
  tab: Tab;
  axis: Axis;
  history: ReturnType<typeof useEvents>;
}) {
  const { trisId, current, coordinates, parameters, tab, axis, history } = props;
  const asked = parameters.get('series');
  const series = asked === 'tct' || asked === 'reliability' ? asked : 'score';
  const isOrganization = useIsOrganization(trisId);
  const [opened] = useState(() => Date.now());
  const now = Math.min(opened, Date.parse(current.as_of)) / 1000;
  const events = (
    <History
      trisId={trisId}
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
      <Tabs
        tabs={Object.entries(TABS).filter(([name]) => name !== 'organization' || isOrganization)}
        shown={tab}
        hrefOf={(name) => hrefOf('identity', trisId, new URLSearchParams([...withoutTab(parameters), ['tab', name]]))}
      />
      {tab === 'overview' && (
        <div className="grid sides">
          {events}
          <Stack>
            <Categories metrics={current.disc_metrics} />
            <Verifications current={current} />
          </Stack>
        </div>
      )}
      {tab === 'events' && events}
      {tab === 'why' && <Explained trisId={trisId} coordinates={coordinates} />}
      {tab === 'endorsements' && <Received trisId={trisId} />}
      {tab === 'standing' && <Standing trisId={trisId} />}
      {tab === 'organization' && <Organization trisId={trisId} />}
      {tab === 'disputes' && <Disputes trisId={trisId} />}
      {tab === 'access' && (
        <>
          {!hasCredential() && (
            <Empty>Enter a key with “API key” to see the wallets and the access decisions that it may read.</Empty>
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
    <Paper component="section" withBorder p="md" aria-labelledby="score-title">
      <Stack gap="sm">
        <VisuallyHidden>
          <h2 id="score-title">Score</h2>
        </VisuallyHidden>
        {current.incomplete && (
          <Warning>An event about this identity could not be decoded. The score does not count it.</Warning>
        )}
        {bad && (
          <Warning>
            BAD status {bad.level} since <Time value={bad.since} />, reason <Code>{bad.reason_code}</Code>. It
            determines the score.
          </Warning>
        )}
        <div className="grid standing">
          <div>
            <Group gap="xs" align="baseline">
              <Text fz="2rem" fw={600} lh={1.3} className="numbers" data-testid="score">
                {score(current.score)}
              </Text>
              <span>of 100, </span>
              <Rating name={current.score_rating} />
            </Group>
            <Gauge value={current.score} rating={current.score_rating} />
            <Note>
              <Term name="DISC score" /> on the bands of the <Term name="Rating">ratings</Term>
            </Note>
          </div>
          <Figures
            figures={[
              [
                <Term key="term" name="Reliability" />,
                evidence ? WORDS[evidence.word] : score(current.reliability),
                <>
                  {hundredths(current.reliability)}
                  {interval && `; ${hundredths(interval[0])} to ${hundredths(interval[1])} with a probability of 90 %`}
                </>,
              ],
              [
                <Term key="term" name="TCT" />,
                count(current.total_tct),
                <>
                  {count(current.earned_tct)} earned, {count(current.forfeited_tct)}{' '}
                  <Term name="Forfeits">forfeited</Term>
                </>,
              ],
            ]}
          />
        </div>
        <LatestEvent history={history} />
        <Note>
          As of <Time value={current.as_of} />, <Term name="Position">position</Term> <Code>{current.position}</Code>,{' '}
          <Term name="Lens">lens</Term> <Code>{current.lens.policy_id ?? 'model'}</Code>, model{' '}
          <Code>{current.model.id}</Code>.{' '}
          <Anchor underline="always" href={hrefOf('identity', current.tris_id, pinned(current, coordinates))}>
            Link to exactly these numbers
          </Anchor>
        </Note>
      </Stack>
    </Paper>
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
    <Box className="gauge" role="img" aria-label={`${score(value)} of 100, ${rating}`} pos="relative" mt={4} mb={28}>
      {RATINGS.map(([name, below, colour], i) => {
        const from = RATINGS[i - 1]?.[1] ?? 0;
        return (
          <span key={name} style={{ width: `${below - from}%`, background: `var(--mantine-color-${colour}-5)` }}>
            {count(from)}
          </span>
        );
      })}
      <Box pos="absolute" top={-5} left={`${value}%`} w={4} h={24} ml={-2} bdrs={2} bg="var(--mantine-color-text)" />
    </Box>
  );
}

/** The latest event in the log, and what it did. Nothing until all events are there. */
function LatestEvent({ history: { events, hasNextPage } }: { history: ReturnType<typeof useEvents> }) {
  if (!events || events.entries.length === 0 || hasNextPage) return <Text>&nbsp;</Text>;
  const index = events.entries.length - 1;
  const { what, from, to } = describe(events, index);
  const { tct_delta, occurred_at, score_rating } = events.entries[index]!;
  const before = events.entries[index - 1]?.score_rating;
  const did =
    tct_delta === 0 ? 'moved no TCT' : `${tct_delta < 0 ? 'forfeited' : 'earned'} ${count(Math.abs(tct_delta))} TCT`;
  return (
    <Text>
      Latest event, <Time value={occurred_at} />: {what} {did};{' '}
      {from === null
        ? `the score began at ${score(to)}`
        : score(from) === score(to)
          ? `the score stayed at ${score(to)}`
          : `the score went from ${score(from)} to ${score(to)}`}
      {before !== undefined && before !== score_rating && `, the rating from ${before} to ${score_rating}`}.
    </Text>
  );
}

const SERIES: Record<Series, string> = { score: 'Score', reliability: 'Reliability', tct: 'Net TCT' };

/** The line of the scores, or the list of the events. */
function History(props: {
  trisId: string;
  history: ReturnType<typeof useEvents>;
  eventId: string | null;
  axis: Axis;
  series: Series;
  isList: boolean;
  /** In seconds. */
  now: number;
  reliability: (first: number) => ReactNode;
}) {
  const { trisId, eventId, axis, series, isList, now, reliability } = props;
  const { events: loaded, error, isFetching, hasNextPage, fetchNextPage } = props.history;
  const selected = useMemo(
    () => (eventId === null ? -1 : (loaded?.entries.findIndex(({ event_id }) => event_id === eventId) ?? -1)),
    [loaded, eventId],
  );
  const selectEvent = (index: number) => setParameters({ event: loaded?.entries[index]?.event_id });
  return (
    <Panel title={isList ? 'Events' : `${SERIES[series]} over time`}>
      <Loaded query={{ ...props.history, data: loaded, refetch: fetchNextPage }} what="the events">
        {(events) =>
          events.entries.length === 0 ? (
            <Empty>No event counts at this time.</Empty>
          ) : (
            <>
              {!isList && (
                <>
                  <Group justify="space-between" gap="xs">
                    <Button.Group aria-label="What the line shows">
                      {Object.entries(SERIES).map(([name, title]) => (
                        <Button
                          key={name}
                          variant={name === series ? 'light' : 'default'}
                          aria-pressed={name === series}
                          onClick={() => setParameters({ series: name === 'score' ? undefined : name })}
                        >
                          {title}
                        </Button>
                      ))}
                    </Button.Group>
                    {series !== 'reliability' && (
                      <NativeSelect
                        aria-label="Axis"
                        size="xs"
                        value={axis}
                        onChange={({ target }) =>
                          setParameters({ axis: target.value === 'time' ? undefined : target.value })
                        }
                        data={[
                          { value: 'time', label: 'by time' },
                          { value: 'number', label: 'by number of the event' },
                        ]}
                      />
                    )}
                  </Group>
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
                  <Note>
                    {series === 'reliability'
                      ? 'The shaded interval has a probability of 90 %.'
                      : 'Circles earn TCT, triangles forfeit it, squares change a status.'}
                    {events.late > 0 &&
                      series !== 'reliability' &&
                      ` ${counted(events.late, 'event')} recorded after later ones: by time, each is drawn where the one before it in the log is.`}
                  </Note>
                </>
              )}
              {selected >= 0 && <EventDetails trisId={trisId} events={events} index={selected} />}
              <Text role="status" size="sm" c="dimmed">
                {counted(events.entries.length, 'event')}
                {hasNextPage ? ' loaded' : ''}
                {isFetching ? ', loading more…' : '.'}
              </Text>
              {hasNextPage && !isFetching && !error && (
                <Group>
                  <Button onClick={() => void fetchNextPage()}>Load more events</Button>
                </Group>
              )}
              {isList && <EventTable events={events} selected={selected} onSelect={selectEvent} />}
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Categories({ metrics }: { metrics: Record<string, number> }) {
  const known = Object.entries(metrics).filter(([, health]) => health > 0);
  const others = Object.keys(metrics).length - known.length;
  return (
    <Panel
      title={
        <>
          <Term name="Health">Health</Term> by category, 0 to 1
        </>
      }
    >
      {known.map(([category, health]) => (
        <div key={category}>
          <Group justify="space-between" gap="xs" fz="sm">
            <span>{category}</span>
            <span className="numbers">{hundredths(health)}</span>
          </Group>
          <Progress size="sm" mt={4} value={100 * health} aria-hidden="true" />
        </div>
      ))}
      {known.length === 0 ? (
        <Empty>No category has recent evidence.</Empty>
      ) : (
        others > 0 && <Note>No recent evidence in the {count(others)} others.</Note>
      )}
    </Panel>
  );
}

function Verifications({ current }: { current: Score }) {
  return (
    <Panel title="Verifications">
      {current.verification.length === 0 && <Empty>None at this time.</Empty>}
      {current.verification.map(({ status, issuer, scheme, expires_at, accredited }) => (
        <Text key={`${status} ${issuer} ${scheme}`} size="sm">
          <strong>{status}</strong> by {issuer}, scheme {scheme}
          {expires_at && (
            <>
              , until <Time value={expires_at} />
            </>
          )}
          {!accredited && '. The issuer is not accredited: it counts only in policies that name it'}.
        </Text>
      ))}
    </Panel>
  );
}

function Explained({ trisId, coordinates }: { trisId: string; coordinates: Coordinates }) {
  const query = useGet<'ExplanationDto'>(scorePath(trisId, '/explain'), { ...coordinates });
  return (
    <Panel title="What the score consists of">
      <Loaded query={query} what="the explanation">
        {({ summary, contributions, forfeits, platforms, counterparties, next_rating: next }) => (
          <>
            {summary && <Text>{summary}</Text>}
            {next && (
              <Text>
                {count(next.tct_needed)} TCT are missing for {next.rating}
                {next.days_needed != null && `, which takes at least ${counted(next.days_needed, 'day')}`}.
              </Text>
            )}
            <Rows
              caption="Contributions"
              isShown
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
              isShown
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
              isShown
              empty="No platform."
              head={['Platform', 'Actions', 'TCT', 'Flagged TCT']}
              rows={platforms.map((p) => [p.platform_id, count(p.actions), count(p.tct), count(p.flagged_tct)])}
            />
            {counterparties && (
              <Rows
                caption="Counterparties with the largest effect"
                isShown
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
    </Panel>
  );
}

function Received({ trisId }: { trisId: string }) {
  return (
    <Panel
      title={
        <>
          <Term name="Credonation">Credonations</Term> received
        </>
      }
    >
      <Paged<Credonation>
        path={`api/tris-validations/${encodeURIComponent(trisId)}`}
        limit={1000}
        field="validations"
        what="credonations"
      >
        {(credonations, hasMore) => (
          <>
            {credonations.length > 0 && (
              <Note>
                {hasMore && 'The first '}
                {count(credonations.length)}, of all times, by endorser.
              </Note>
            )}
            <Rows
              caption="By endorser"
              isShown
              empty="None."
              head={['From', 'Number', 'TCT', 'Last']}
              rows={byEndorser(credonations).map(({ from, number, amount, last }) => [
                linkTo('identity', from),
                count(number),
                count(amount),
                <Time key="last" value={last} />,
              ])}
            />
          </>
        )}
      </Paged>
    </Panel>
  );
}

type Credonation = Schemas['CredonationDto'];

function byEndorser(credonations: readonly Credonation[]) {
  const found = new Map<string, { from: string; number: number; amount: number; last: string }>();
  for (const { from, amount, timestamp } of credonations) {
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
  const query = useGet<'WalletsDto'>(
    `v1/wallets/${encodeURIComponent(trisId)}`,
    { limit: 1000 },
    { enabled: hasCredential() },
  );
  const { status } = (query.error as ApiError | null) ?? { status: 200 };
  if (!hasCredential() || status === 403 || status === 404) return null;
  return (
    <Panel title="Wallets">
      <Loaded query={query} what="the wallets">
        {({ wallets }) => (
          <Rows
            caption="Linked wallets"
            isShown
            empty="None that this key may see."
            head={['Wallet', 'Proof', 'Linked']}
            rows={wallets.map((w) => [w.wallet, w.proof, <Time key="linked" value={w.linked_at} />])}
          />
        )}
      </Loaded>
    </Panel>
  );
}

/** For keys, and for the session of the identity. */
function AccessDecisions({ trisId }: { trisId: string }) {
  if (!hasCredential() || (currentSession() !== null && currentSession()!.tris_id !== trisId)) return null;
  return (
    <Panel title="Access decisions">
      <DecisionsAbout trisId={trisId}>
        {(decisions) => (
          <Rows
            caption="Checks"
            empty="None that you may see."
            head={['Checked', 'Policy', 'Decision', 'Score', 'Because of', 'By']}
            rows={decisions.map((decision) => [
              <Time key={decision.jti} value={decision.checked_at} />,
              linkTo('lab', decision.policy_id),
              <Outcome key="decision" {...decision} />,
              decision.score === null ? '' : score(decision.score),
              decision.reasons.map(({ rule, outcome }) => `${rule} ${outcome}`).join(', '),
              decision.checked_by,
            ])}
          />
        )}
      </DecisionsAbout>
    </Panel>
  );
}
