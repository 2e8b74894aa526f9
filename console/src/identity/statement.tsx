import { Group, NativeSelect, Text, Textarea } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { currentSession, hasCredential, post, type Schemas } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { typed } from '../form.tsx';
import { score } from '../format.tsx';
import { useMay } from '../lab/needs.tsx';
import { Loaded } from '../loading.tsx';
import { useGet } from '../queries.ts';

/** Opens a dispute of a statement about whoever is signed in. */
export function Contest({ what, about }: { what: string; about: object }) {
  return (
    <Confirmed
      label="Contest"
      describes={what}
      title={`Contest ${what}`}
      verb="Open the dispute"
      act={(form) => post('v1/disputes', { ...about, statement: typed(form, 'statement') })}
      outcome={() => <Text role="status">The dispute is open. Whoever made the statement is told of it.</Text>}
    >
      <Text size="sm">
        Whoever made the statement answers. If they agree, it no longer counts. What you write can be deleted later;
        that you contested it stays recorded.
      </Text>
      <Textarea label="What is wrong" name="statement" autosize={false} rows={4} data-autofocus />
    </Confirmed>
  );
}

const REASONS = ['mistake', 'duplicate', 'reversed', 'disputed', 'key_compromised'] as const;

/** What the reader may do about an action: the person it is about contests it, whoever made it withdraws it. */
export function ActionStatement({ trisId, actionId }: { trisId: string; actionId: string }) {
  const query = useGet<'ActionDto'>(`v1/actions/${actionId}`, {}, { enabled: hasCredential() });
  const mayRelay = useMay('relay:write');
  const mayOperate = useMay('ops');
  // The reader may not know more than the event.
  if (!query.data) return null;
  const isCounted = query.data.state === 'counted';
  const isOwn = currentSession()?.tris_id === trisId;
  const [verb, path] = isCounted ? ['Withdraw', 'withdraw'] : ['Reinstate', 'reinstate'];
  const change = (body: object) => post<Schemas['ChangedActionDto']>(`v1/actions/${actionId}/${path}`, body);
  return (
    <>
      {!isCounted && <Text>It was withdrawn, and counts nowhere.</Text>}
      <Group>
        {isOwn && isCounted && <Contest what="this statement" about={{ action_id: actionId }} />}
        {(mayRelay || mayOperate) && (
          <Confirmed
            label={verb}
            describes="this action"
            title={`${verb} the action`}
            verb={verb}
            act={(form) => change({ reason: typed(form, 'reason') })}
          >
            <Text size="sm">
              {isCounted
                ? 'It counts nowhere from now on. The log keeps it, and what was known before stays as it was.'
                : 'It counts again from now on.'}
            </Text>
            <DryRun of={() => change({ reason: REASONS[0], dry_run: true })} id={`${actionId} ${path}`} />
            <NativeSelect label="Reason" name="reason" data={[...REASONS]} data-autofocus />
          </Confirmed>
        )}
      </Group>
    </>
  );
}

/** What the score would be. */
function DryRun({ id, of }: { id: string; of: () => Promise<Schemas['ChangedActionDto']> }) {
  const query = useQuery({ queryKey: ['dry run', id], queryFn: of, staleTime: 0 });
  return (
    <Loaded query={query} what="what would change">
      {({ before, after }) =>
        before &&
        after && (
          <Text role="status">
            The score would go from {score(before.score)} ({before.score_rating}) to {score(after.score)} (
            {after.score_rating}).
          </Text>
        )
      }
    </Loaded>
  );
}
