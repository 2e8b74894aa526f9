import { Code, Group, Progress, Stack, Text } from '@mantine/core';
import { currentKey, type Schemas } from '../api.ts';
import { bytes, count, Time } from '../format.tsx';
import { Needs } from '../lab/needs.tsx';
import { Loaded } from '../loading.tsx';
import { Note, Panel } from '../panel.tsx';
import { useGet } from '../queries.ts';

type Bound = Schemas['UsedBoundDto'];

const TITLES: Record<Bound['name'], string> = {
  actions: 'Actions relayed today',
  bytes: 'Bytes of these actions',
  job_results: 'Results of jobs that are kept',
  job_bytes: 'Bytes of these results',
  delivery_bytes: 'Bytes of deliveries that are kept',
};
const EVERY_MS = 5_000;

/** What the owner of the key has used of what it may. */
export function Usage() {
  const usage = useGet<'UsageDto'>('v1/usage', {}, { enabled: currentKey() !== null, refetchInterval: EVERY_MS });
  return (
    <Panel title="Usage">
      <Needs what="What is used">
        <Loaded query={usage} what="what is used">
          {({ owner, bounds }) => (
            <>
              <Text size="sm">
                What <Code>{owner}</Code> has used of its quotas and bounds.
              </Text>
              <div className="grid fields">
                {bounds.map((bound) => (
                  <Share key={bound.name} {...bound} />
                ))}
              </div>
            </>
          )}
        </Loaded>
      </Needs>
    </Panel>
  );
}

function Share({ name, used, limit, resets_at }: Bound) {
  const format = name.endsWith('bytes') ? bytes : count;
  const share = limit === null ? 0 : Math.min(100, (100 * used) / Math.max(1, limit));
  return (
    <Stack gap={4} component="article" data-testid={`usage-${name}`}>
      <Group justify="space-between" gap="xs">
        <Text fw={500}>{TITLES[name]}</Text>
        <Text size="sm" className="numbers">
          {format(used)} {limit === null ? '' : `of ${format(limit)}`}
        </Text>
      </Group>
      {limit !== null && (
        <Progress
          aria-label={TITLES[name]}
          value={share}
          color={share >= 100 ? 'red' : share >= 80 ? 'orange' : 'indigo'}
        />
      )}
      <Note>
        {limit === null && 'No bound. '}
        {resets_at !== null ? (
          <>
            Begins at 0 again <Time value={resets_at} />
            {limit !== null && '; beyond the quota, actions are refused until then'}.
          </>
        ) : (
          limit !== null && 'Nothing is refused: beyond the bound, the oldest go.'
        )}
      </Note>
    </Stack>
  );
}
