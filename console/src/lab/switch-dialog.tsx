import { List, Text } from '@mantine/core';
import { post } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { count, decimal, hundredths, signed } from '../format.tsx';
import { Failure } from '../loading.tsx';
import { Note } from '../panel.tsx';
import { useGet } from '../queries.ts';
import { isConfiguration } from './draft.ts';
import { useMay } from './needs.tsx';
import { type Policy, type Replay, type Scope, type Switch, usePolicies, VP_PATH } from './policies.ts';

const LOOK_MS = 500;

/** Promotes a policy or, where it is the lens, rolls it back, after a confirmation that repeats what changes. */
export function SwitchDialog(props: {
  policy: Policy;
  scope: Scope;
  /** The completed replay that a promotion is based on. */
  replay?: Replay;
}) {
  const { policy, scope, replay } = props;
  const { policy_id: policyId, tris_org: owner, active_for, computed_weight, status } = policy;
  const maySwitch = useMay(scope === 'platform' ? 'ops' : 'policies:write');
  const isActive = active_for.includes(scope);
  const isFit = isActive || scope === 'organization' || isConfiguration(computed_weight);
  const action = isActive ? 'rollback' : 'promote';
  const whose = scope === 'platform' ? 'the platform' : owner;
  const current = usePolicies().data?.find(
    ({ active_for, tris_org }) => active_for.includes(scope) && (scope === 'platform' || tris_org === owner),
  );
  const verb = isActive ? 'Roll back' : 'Promote';
  if (status === 'retired' && !isActive) return null;
  return (
    <>
      <Confirmed
        label={verb}
        isPermitted={maySwitch && isFit}
        title={`${verb} ${policyId} for ${whose}`}
        verb={`${verb} for ${whose}`}
        act={() =>
          post<Switch>(`${VP_PATH}/${encodeURIComponent(policyId)}/${action}`, {
            scope,
            ...(replay && !isActive && { replay_id: replay.replay_id }),
          })
        }
        outcome={(change) => <Switched change={change} whose={whose} />}
      >
        <Text size="sm">
          {isActive
            ? `${policyId} is no longer the lens of ${whose}. The lens that was active before it was promoted returns.`
            : `${policyId} becomes the lens of ${whose}, in place of ${current?.policy_id ?? (scope === 'platform' ? 'the model’s own lens' : 'the platform’s lens')}.`}{' '}
          {scope === 'platform'
            ? 'Everybody whose organization has no lens of its own sees scores through it at once, and access is decided by it.'
            : `Requests with keys of ${owner} see scores through it at once, and its access policies decide by it.`}{' '}
          The feed of changes starts again, since every score may differ.
        </Text>
        {!isActive && <Effect replay={replay} />}
      </Confirmed>
      {!isFit && (
        <Note>
          The weights add up to {decimal(computed_weight)}; for the platform they must add up to 0.95 to 1.05.
        </Note>
      )}
    </>
  );
}

/** The read models may still be switching. */
function Switched({ change: { job_id, active, previous }, whose }: { change: Switch; whose: string }) {
  const pending = useGet<'PromotionDto'>(
    `v1/promotions/${job_id}`,
    {},
    {
      enabled: job_id !== undefined,
      refetchInterval: ({ state }) => (state.data?.status === 'applied' ? false : LOOK_MS),
    },
  );
  const isApplied = job_id === undefined || pending.data?.status === 'applied';
  const nameOf = (id: string | null) => id ?? 'the lens without a policy of its own';
  return (
    <>
      <Text role="status">
        {isApplied
          ? `Done. The lens of ${whose} is ${nameOf(active.policy_id)}; it was ${nameOf(previous.policy_id)}.`
          : 'Recorded. The read models are switching…'}
      </Text>
      {pending.error && <Failure error={pending.error} retry={() => void pending.refetch()} />}
    </>
  );
}

function Effect({ replay }: { replay: Replay | undefined }) {
  if (!replay?.result)
    return (
      <Text size="sm">
        This promotion is not based on a replay. On the page of a replay you see what changes, and the replay is
        recorded with the promotion.
      </Text>
    );
  const { count: all, up, down, mean_delta, rating_moves, access } = replay.result;
  const rated = Object.entries(rating_moves).flatMap(([from, row]) =>
    Object.entries(row).flatMap(([to, moved]) => (from === to ? [] : [moved])),
  );
  return (
    <>
      <Text size="sm">By the replay, of {count(all)} identities:</Text>
      <List size="sm">
        <List.Item>
          {count(up)} rise and {count(down)} fall, by {signed(mean_delta, hundredths)} points in the mean of all
        </List.Item>
        <List.Item>{count(rated.reduce((a, b) => a + b, 0))} change their rating</List.Item>
        {access
          .filter(({ gained, lost }) => gained + lost > 0)
          .map(({ policy_id, gained, lost }) => (
            <List.Item key={policy_id}>
              {policy_id}: {count(gained)} gain access, {count(lost)} lose it
            </List.Item>
          ))}
      </List>
    </>
  );
}
