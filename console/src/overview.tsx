import { Anchor, Badge, Box, Code, Group, Paper, Progress, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { currentKey, hasCredential, type Schemas } from './api.ts';
import { count, counted, linkTo, percent, Rating, score, Time } from './format.tsx';
import { Needs, useMay, useMe } from './lab/needs.tsx';
import { useAccessPolicies, usePolicies } from './lab/policies.ts';
import { Empty, Loaded } from './loading.tsx';
import { Details, Note, Panel } from './panel.tsx';
import { hrefOf } from './place.ts';
import { duration } from './rate.tsx';
import { Rows } from './table.tsx';
import { Term } from './term.tsx';
import { useGet } from './queries.ts';

const EVERY_MS = 15_000;
/** Checks that are counted by policy. */
const CHECKS = 100;
const DISPUTES = 100;

/** The start page: how much there is, what happens, and what waits. */
export function OverviewView() {
  const overview = useGet<'OverviewDto'>('v1/disc/overview', {}, { enabled: useMay('ops'), refetchInterval: EVERY_MS });
  const { data } = overview;
  return (
    <Stack>
      <Title order={1}>Overview</Title>
      {currentKey() === null && (
        <Text c="dimmed">
          Enter an API key at the top to see all of this page; a development server has made one, in the file{' '}
          <Code>dev-api-key</Code> of its data folder. The{' '}
          <Anchor href={hrefOf('live')} underline="always">
            latest changes
          </Anchor>{' '}
          need none while reads are public.
        </Text>
      )}
      <div className="grid tiles">
        <Tile
          label="Identities"
          value={data?.identities}
          note={<Anchor href={hrefOf('live')}>Latest changes</Anchor>}
        />
        <Tile label="Actions" value={data?.actions} note="recorded, withdrawn ones too" />
        <Tile label="Organizations" value={data?.organizations} note="registered" />
        <PoliciesTile />
      </div>
      <div className="grid thirds">
        <Panel title="The last hour, by the minute" className="wide">
          <Needs scope="ops" what="The traffic of this process">
            <Loaded query={overview} what="the traffic">
              {({ minutes }) => <Traffic minutes={minutes} />}
            </Loaded>
          </Needs>
        </Panel>
        <Service />
        <Panel title="Ratings that changed last" className="wide">
          <Needs scope="ops" what="The list">
            <Loaded query={overview} what="the changes">
              {({ rating_changes }) => <RatingChanges changes={rating_changes} />}
            </Loaded>
          </Needs>
        </Panel>
        <ChecksByPolicy />
        <Waiting />
      </div>
    </Stack>
  );
}

/** A number, or a dash where there is none yet, or the key may not read it. */
function Tile(props: { label: ReactNode; value: number | null | undefined; note?: ReactNode; isPublic?: boolean }) {
  const { label, value, note, isPublic = false } = props;
  const { data: me } = useMe();
  const mayNot = !isPublic && (hasCredential() ? me && !me.scopes.includes('ops') : true);
  return (
    <Paper component="section" withBorder p="md">
      <Title order={2} size="sm" fw={500} c="dimmed">
        {label}
      </Title>
      <Text fz="1.75rem" fw={600} lh={1.4} className="numbers">
        {value == null ? '–' : count(value)}
      </Text>
      <Note>
        {value == null && mayNot ? (
          <>
            needs a key with <Code>ops</Code>
          </>
        ) : (
          note
        )}
      </Note>
    </Paper>
  );
}

function PoliciesTile() {
  const vps = usePolicies().data;
  const aps = useAccessPolicies().data;
  const lenses = vps?.filter(({ active_for }) => active_for.length > 0).length ?? 0;
  const checked = aps?.filter(({ status }) => status === 'active').length ?? 0;
  const note = vps && aps && (
    <Anchor href={hrefOf('lab')}>
      {lenses === 1 ? '1 lens' : `${count(lenses)} lenses`}, {count(checked)} for access
    </Anchor>
  );
  return <Tile label="Active policies" value={vps && aps && lenses + checked} note={note} isPublic />;
}

type Minute = Schemas['MinuteDto'];

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
      <Group justify="space-between" fz="xs" c="dimmed">
        <span>60 minutes ago</span>
        <span>kept in memory by this process</span>
        <span>now</span>
      </Group>
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
    <Box component="figure" m={0}>
      <figcaption>
        <Text span size="sm" fw={600}>
          {title}
        </Text>{' '}
        <Text span size="sm" c="dimmed">
          {note ? `${text}; ${note}` : text}
        </Text>
      </figcaption>
      <svg
        role="img"
        aria-label={`${title}: ${text}`}
        viewBox={`0 0 ${minutes.length * BAR} ${HEIGHT}`}
        preserveAspectRatio="none"
        width="100%"
        height={HEIGHT}
        style={{ display: 'block', marginTop: 6, borderBottom: '1px solid var(--mantine-color-default-border)' }}
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
                fill={n === 0 ? 'var(--mantine-color-anchor)' : 'var(--mantine-color-error)'}
                x={i * BAR + 1}
                y={y}
                width={BAR - 2}
                height={height}
              />
            );
          });
        })}
      </svg>
    </Box>
  );
}

const WORDS: Record<string, string> = { event_store: 'Log', projections: 'Read models', checkpoints: 'Checkpoints' };

/** The parts that work and those that do not, and how far the read models are behind. */
function Service() {
  const ready = useGet<'ReadinessDto'>('health/ready', {}, { refetchInterval: EVERY_MS, retry: false });
  const { data: status } = useStatus();
  const serving = status?.generations.filter(({ serves }) => serves.length > 0) ?? [];
  return (
    <Panel title="Service">
      <Loaded query={ready} what="its health">
        {({ checks }) => (
          <Details
            rows={checks.map(({ name, status: state, detail }) => [
              WORDS[name] ?? name,
              <Group key="state" gap="xs" wrap="nowrap">
                <Badge miw="max-content" color={state === 'ok' ? 'green' : 'red'}>
                  {state}
                </Badge>
                <Note>{detail}</Note>
              </Group>,
            ])}
          />
        )}
      </Loaded>
      <Needs scope="ops" what="The lag">
        {status && (
          <Details
            rows={[
              ['Lag', duration(Math.max(0, ...serving.map(({ lag_seconds }) => lag_seconds)))],
              ['Events', status.events === null ? 'not counted' : count(status.events)],
            ]}
          />
        )}
      </Needs>
    </Panel>
  );
}

const useStatus = () => useGet<'StatusDto'>('v1/ops/status', {}, { enabled: useMay('ops'), refetchInterval: EVERY_MS });

function RatingChanges({ changes }: { changes: Schemas['OverviewDto']['rating_changes'] }) {
  return (
    <Rows
      caption="Changes of rating"
      empty="No rating has changed lately."
      head={['Identity', 'Change', 'Score', 'When']}
      rows={changes.map(({ tris_id, from, to, score: after, recorded_at }) => [
        linkTo('identity', tris_id),
        <span key="change">
          <Rating name={from} /> <span aria-label="to">→</span> <Rating name={to} />
        </span>,
        score(after),
        <Time key="at" value={recorded_at} />,
      ])}
    />
  );
}

/** Of the latest checks that the key may read. */
function ChecksByPolicy() {
  const query = useGet<'DecisionsDto'>('v1/access/decisions', { limit: CHECKS }, { enabled: useMay('audit:read') });
  const policies = new Map<string, { granted: number; denied: number }>();
  for (const { policy_id, granted } of query.data?.decisions ?? []) {
    const counts = policies.get(policy_id) ?? { granted: 0, denied: 0 };
    counts[granted ? 'granted' : 'denied']++;
    policies.set(policy_id, counts);
  }
  return (
    <Panel title="Checks by policy">
      <Needs scope="audit:read" what="The list">
        <Loaded query={query} what="the decisions">
          {({ decisions, next_cursor }) => (
            <>
              {[...policies].map(([name, { granted, denied }]) => (
                <div key={name}>
                  <Group justify="space-between" gap="xs">
                    {linkTo('lab', name)}
                    <Note>
                      {count(granted)} granted, {count(denied)} denied
                    </Note>
                  </Group>
                  <Progress.Root size="sm" mt={4} aria-hidden="true">
                    <Progress.Section value={(100 * granted) / (granted + denied)} withAria={false} />
                    <Progress.Section value={(100 * denied) / (granted + denied)} color="red" withAria={false} />
                  </Progress.Root>
                </div>
              ))}
              {decisions.length === 0 ? (
                <Empty>Nobody has been checked yet.</Empty>
              ) : (
                <Note>
                  Of the {next_cursor === null ? '' : 'latest '}
                  {counted(decisions.length, 'check')}:{' '}
                  {percent(decisions.filter(({ granted }) => granted).length / decisions.length)} granted.
                </Note>
              )}
            </>
          )}
        </Loaded>
      </Needs>
    </Panel>
  );
}

/** What somebody has to look at. */
function Waiting() {
  const { data: status } = useStatus();
  const { data: disputes } = useGet<'DisputesDto'>(
    'v1/disputes',
    { open: 'true', limit: DISPUTES },
    { enabled: currentKey() !== null, retry: false },
  );
  const open = disputes && `${count(disputes.disputes.length)}${disputes.next_cursor === null ? '' : ' or more'}`;
  const rows = [
    ['Open disputes', open],
    ['Dead letters', status && count(status.dead_letters.open)],
    ['Failed jobs', status && count(status.failed_jobs.count)],
  ] as const;
  return (
    <Panel title="What waits" className="full">
      <Group gap="xl">
        {rows.map(([label, value]) => (
          <Text key={label}>
            <Text span fz="1.375rem" fw={600} className="numbers">
              {value ?? '–'}
            </Text>{' '}
            {value === undefined || value === '0' ? label : <Anchor href={hrefOf('operations')}>{label}</Anchor>}
          </Text>
        ))}
      </Group>
      <Needs scope="ops" what="What waits for operators" />
      {disputes?.disputes.slice(0, 5).map(({ dispute_id, tris_id, about, opened_at }) => (
        <Text key={dispute_id} size="sm">
          {linkTo('identity', tris_id, new URLSearchParams({ tab: 'disputes' }))} disputes{' '}
          {about === 'action' ? 'an action' : about === 'verification' ? 'a verification' : 'the BAD status'},{' '}
          <Time value={opened_at} />
        </Text>
      ))}
      <Note>
        A <Term name="TRIS">TRIS id</Term> names an identity, and its <Term name="DISC score">score</Term> says how
        credible it is. The field at the top finds one by the beginning of its id.
      </Note>
    </Panel>
  );
}
