import { Button, Group, List, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { get, post } from '../api.ts';
import { count, decimal, signed } from '../format.tsx';
import { Dialog } from '../dialog.tsx';
import { Failure } from '../loading.tsx';
import { type Replay, type Scope, type Switch, usePolicies, VP_PATH } from './policies.ts';

const LOOK_MS = 500;

/** Promotes a policy or rolls it back, after a confirmation that repeats what changes. */
export function SwitchDialog(props: {
  policyId: string;
  /** The organization that owns the policy. */
  owner: string;
  scope: Scope;
  action: 'promote' | 'rollback';
  /** Whether the key may do it, and the policy fits. */
  isPermitted: boolean;
  /** The completed replay that a promotion is based on. */
  replay?: Replay;
}) {
  const { policyId, owner, scope, action, isPermitted, replay } = props;
  const [isOpen, setOpen] = useState(false);
  const client = useQueryClient();
  const whose = scope === 'platform' ? 'the platform' : owner;
  const policies = usePolicies();
  const active = policies.data?.find(
    ({ active_for, tris_org }) => active_for.includes(scope) && (scope === 'platform' || tris_org === owner),
  );
  const change = useMutation({
    mutationFn: () =>
      post<Switch>(`${VP_PATH}/${encodeURIComponent(policyId)}/${action}`, {
        scope,
        ...(replay && { replay_id: replay.replay_id }),
      }),
  });
  const job = change.data?.job_id;
  const pending = useQuery({
    queryKey: ['lab', 'promotion', job],
    queryFn: ({ signal }) => get<Switch>(`v1/promotions/${job}`, {}, signal),
    enabled: job !== undefined,
    refetchInterval: ({ state }) => (state.data?.status === 'applied' ? false : LOOK_MS),
  });
  const isApplied = change.isSuccess && (job === undefined || pending.data?.status === 'applied');
  const verb = action === 'promote' ? 'Promote' : 'Roll back';
  const nameOf = (id: string | null | undefined) => id ?? 'the lens without a policy of its own';
  const close = () => {
    setOpen(false);
    // Not before the dialog is closed: what is loaded again may remove the dialog itself.
    if (change.isSuccess) void client.invalidateQueries();
    change.reset();
  };
  return (
    <>
      <Button disabled={!isPermitted} onClick={() => setOpen(true)}>
        {verb}…
      </Button>
      {/* Under way, it can no longer be cancelled. */}
      <Dialog title={`${verb} ${policyId} for ${whose}`} opened={isOpen} onClose={close} isBusy={change.isPending}>
        {!change.isSuccess && (
          <>
            <Text size="sm">
              {action === 'promote'
                ? `${policyId} becomes the lens of ${whose}, in place of ${active?.policy_id ?? (scope === 'platform' ? 'the model’s own lens' : 'the platform’s lens')}.`
                : `${policyId} is no longer the lens of ${whose}. The lens that was active before it was promoted returns.`}{' '}
              {scope === 'platform'
                ? 'Everybody whose organization has no lens of its own sees scores through it at once, and access is decided by it.'
                : `Requests with keys of ${owner} see scores through it at once, and its access policies decide by it.`}{' '}
              The feed of changes starts again, since every score may differ.
            </Text>
            {action === 'promote' && <Effect replay={replay} />}
          </>
        )}
        {change.isSuccess && (
          <Text role="status">
            {isApplied
              ? `Done. The lens of ${whose} is ${nameOf(change.data.active.policy_id)}; it was ${nameOf(change.data.previous.policy_id)}.`
              : 'Recorded. The read models are switching…'}
          </Text>
        )}
        {change.error && <Failure error={change.error} />}
        {pending.error && <Failure error={pending.error} retry={() => void pending.refetch()} />}
        <Group gap="xs">
          {!change.isSuccess && (
            <Button variant="filled" disabled={change.isPending} onClick={() => change.mutate()}>
              {verb} for {whose}
            </Button>
          )}
          <Button disabled={change.isPending} onClick={close}>
            {change.isSuccess ? 'Close' : 'Cancel'}
          </Button>
        </Group>
      </Dialog>
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
          {count(up)} rise and {count(down)} fall, by {signed(mean_delta, decimal)} points in the mean of all
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
