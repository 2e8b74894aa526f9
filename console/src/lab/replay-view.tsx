import { Anchor, Box, Code, Group, Paper, Stack, Text, Title } from '@mantine/core';
import { post, remove } from '../api.ts';
import { Act } from '../form.tsx';
import { count, decimal, linkTo, Time } from '../format.tsx';
import { hrefOf } from '../place.ts';
import { Advance } from '../rate.tsx';
import { Loaded, Warning } from '../loading.tsx';
import { Change } from './change.tsx';
import { useMay } from './needs.tsx';
import { type LensName, type Replay, type Scope, usePolicy, VP_PATH } from './policies.ts';
import { useGet } from '../queries.ts';
import { SwitchDialog } from './switch-dialog.tsx';
import { Note } from '../panel.tsx';

const LOOK_MS = 500;

const isOpen = (status: Replay['status']): boolean => status === 'queued' || status === 'running';

/** A replay over everyone: its progress, then its result. */
export function ReplayView({ replayId }: { replayId: string }) {
  const path = `v1/replays/${encodeURIComponent(replayId)}`;
  const query = useGet<'ReplayDto'>(
    path,
    {},
    { refetchInterval: ({ state }) => (state.data && !isOpen(state.data.status) ? false : LOOK_MS) },
  );
  return (
    <Stack>
      <Title order={1}>Replay over everyone</Title>
      <Group gap="xs">
        <Anchor href={hrefOf('lab')}>All policies</Anchor>
        {query.data?.policy_id && linkTo('lab', query.data.policy_id)}
      </Group>
      <Loaded query={query} what="the replay">
        {(replay) =>
          isOpen(replay.status) ? (
            <Underway replay={replay} path={path} looked={query.dataUpdatedAt} />
          ) : (
            <Finished replay={replay} />
          )
        }
      </Loaded>
    </Stack>
  );
}

function Underway({ replay, path, looked }: { replay: Replay; path: string; looked: number }) {
  const { done, total } = replay.progress;
  return (
    <Paper component={Stack} gap="sm" align="flex-start" withBorder p="md">
      <Text>
        {replay.policy_id ?? 'A version of the model'}, started <Time value={replay.started_at} />.
      </Text>
      <Box w="100%" role="status">
        {replay.status === 'queued' ? (
          'Queued.'
        ) : (
          <Advance label="Identities compared" done={done} total={total} what=" identities" at={looked} />
        )}
      </Box>
      <Act label="Cancel the replay" act={() => remove(path)} />
    </Paper>
  );
}

function Finished({ replay }: { replay: Replay }) {
  const { policy_id, scope, status, result, error, started_at, finished_at } = replay;
  const seconds = finished_at === null ? 0 : (Date.parse(finished_at) - Date.parse(started_at)) / 1000;
  return (
    <>
      <Text role="status">
        {status === 'completed' && result
          ? `${nameOf(result.before, result)} → ${nameOf(result.after, result)}: ${count(result.count)} identities in ${decimal(seconds)} s.`
          : `The replay ${status === 'cancelled' ? 'was cancelled' : status}.`}
      </Text>
      {error !== null && status === 'failed' && <Warning>{error}</Warning>}
      <Group gap="xs">
        {status === 'completed' && policy_id !== null && <Promotion replay={replay} policyId={policy_id} />}
        {policy_id !== null && <StartReplay label="Replay again" policyId={policy_id} scope={scope} />}
      </Group>
      {result && (
        <>
          <Title order={2}>Result</Title>
          <Change summary={result} lenses={result} />
          <Note>
            Up to position <Code>{result.position}</Code>, as of <Time value={result.as_of} />, model{' '}
            <Code>{result.after.model.id}</Code>.
          </Note>
        </>
      )}
    </>
  );
}

/** A button that compares everyone under a policy and the lens that is active. */
export function StartReplay({ label, policyId, scope }: { label: string; policyId: string; scope: Scope }) {
  return (
    <Act
      label={label}
      isPermitted={useMay('policies:write')}
      act={() => post<Replay>(`${VP_PATH}/${encodeURIComponent(policyId)}/replay`, { scope })}
      onDone={({ replay_id }) => {
        window.location.hash = hrefOf('lab', replay_id);
      }}
    />
  );
}

/** A lens by its policy; in a replay of models, the version. */
function nameOf({ policy_id, model }: LensName, { before, after }: { before: LensName; after: LensName }): string {
  return before.model.id === after.model.id ? (policy_id ?? 'the model’s own lens') : model.id;
}

function Promotion({ replay, policyId }: { replay: Replay; policyId: string }) {
  const policy = usePolicy(policyId);
  return policy.data ? <SwitchDialog policy={policy.data} scope={replay.scope} replay={replay} /> : null;
}
