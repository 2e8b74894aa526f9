import { Button, Checkbox, Group, NativeSelect, Stack, Text, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { errorsOf, type FieldError, post, type Schemas } from '../api.ts';
import { count, linkTo, Rating, score, signed } from '../format.tsx';
import { Panel } from '../panel.tsx';
import { client } from '../queries.ts';
import { Rows } from '../table.tsx';
import { Failure, Warning } from '../loading.tsx';
import { Change, Reasons } from './change.tsx';
import { useStoredText } from './draft.ts';
import { Needs } from './needs.tsx';
import { idsIn, under } from './fields.tsx';
import {
  ACCESS_POLICIES,
  type ListedAccessPolicy,
  type Scope,
  SCOPES,
  useAccessPolicies,
  VP_PATH,
} from './policies.ts';

const MOST_SUBJECTS = 100;
const MOST_ACCESS_POLICIES = 20;

const activeOf = (policies: readonly ListedAccessPolicy[]) => policies.filter(({ status }) => status === 'active');

/** Shows what a draft would change for some identities, or for all. Nothing is stored. */
export function DryRun(props: {
  policy: Record<string, unknown> | null;
  /** Gets what the service refuses of the policy, with pointers into it. */
  onRefused: (errors: readonly FieldError[]) => void;
}) {
  const { policy, onRefused } = props;
  const [text, setText] = useStoredText('subjects', () => '');
  const [scope, setScope] = useState<Scope>('platform');
  const [withAccess, setWithAccess] = useState(true);
  const active = activeOf(useAccessPolicies().data ?? []);
  const ids = idsIn(text);
  const draft = JSON.stringify(policy);
  const run = useMutation({
    mutationFn: async ({ subjects }: { subjects: readonly string[] | undefined; draft: string }) => {
      // The list may still be on its way.
      const listed = withAccess && (await client.ensureQueryData(ACCESS_POLICIES));
      return post<Schemas['EvaluationDto']>(`${VP_PATH}/evaluate`, {
        policy,
        scope,
        ...(subjects && { subjects }),
        ...(listed && {
          access_policies: activeOf(listed)
            .slice(0, MOST_ACCESS_POLICIES)
            .map(({ policy_id }) => policy_id),
        }),
      });
    },
    onError: (error) => onRefused(under('/policy', errorsOf(error))),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    run.mutate({ subjects: ids, draft });
  };
  const isWrong =
    errorsOf(run.error).some(({ pointer }) => pointer.startsWith('/subjects')) || ids.length > MOST_SUBJECTS;
  return (
    <Panel title="Dry run">
      <Needs scope="policies:write" what="A dry run" />
      <form onSubmit={submit}>
        <Stack gap="sm">
          <Textarea
            label={`Identities, up to ${MOST_SUBJECTS}, separated by spaces or lines`}
            styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
            rows={3}
            spellCheck={false}
            value={text}
            error={ids.length > MOST_SUBJECTS ? `${count(ids.length)} are more than ${MOST_SUBJECTS}.` : isWrong}
            onChange={({ target }) => setText(target.value)}
          />
          <Group gap="xs">
            <NativeSelect
              aria-label="Compared with the lens of"
              size="xs"
              value={scope}
              onChange={({ target }) => setScope(target.value as Scope)}
              data={SCOPES.map((name) => ({
                value: name,
                label: `compared with the lens of ${name === 'platform' ? 'the platform' : 'its organization'}`,
              }))}
            />
            {active.length > 0 && (
              <Checkbox
                label={`With access decisions${active.length > MOST_ACCESS_POLICIES ? `, of the first ${MOST_ACCESS_POLICIES} policies` : ''}`}
                checked={withAccess}
                onChange={({ target }) => setWithAccess(target.checked)}
              />
            )}
            <Button
              type="submit"
              variant="filled"
              disabled={policy === null || ids.length === 0 || ids.length > MOST_SUBJECTS || run.isPending}
            >
              Try on these
            </Button>
            <Button
              disabled={policy === null || run.isPending}
              onClick={() => run.mutate({ subjects: undefined, draft })}
            >
              Try on everyone
            </Button>
          </Group>
        </Stack>
      </form>
      <Text size="sm" c="dimmed" role="status">
        {run.isPending && 'Comparing…'}
      </Text>
      {run.error && <Failure error={run.error} retry={() => run.mutate({ ...run.variables, draft })} />}
      {run.data && (
        <>
          {run.variables.draft !== draft && <Warning>The draft has changed since.</Warning>}
          <Text>
            <strong>{run.data.lens.policy_id ?? 'the model’s own lens'}</strong> → <strong>{run.data.policy_id}</strong>
          </Text>
          {run.data.results.length > 0 ? (
            <Subjects results={run.data.results} />
          ) : (
            <Change summary={run.data.summary} lenses={null} />
          )}
        </>
      )}
    </Panel>
  );
}

function Subjects({ results }: { results: readonly Schemas['EvaluatedSubjectDto'][] }) {
  return (
    <Rows
      caption="Identities before and after"
      empty=""
      head={['Identity', 'Before', 'After', 'Change', 'Rating', 'Because of, in TCT', 'Access']}
      rows={results.map(({ tris_id, current, projected, reasons, access, problem }) => [
        linkTo('identity', tris_id),
        current && score(current.score),
        projected && score(projected.score),
        current && projected && signed(projected.score - current.score, score),
        current && projected && (
          <span key="ratings">
            <Rating name={current.score_rating} /> → <Rating name={projected.score_rating} />
          </span>
        ),
        problem ? problem.detail : <Reasons key="reasons" reasons={reasons} />,
        accessText(access),
      ])}
    />
  );
}

function accessText(access: Schemas['EvaluatedSubjectDto']['access']): string {
  const flips = access.filter(({ before, after }) => before !== after);
  if (access.length === 0) return '';
  if (flips.length === 0) return 'same';
  return flips.map(({ policy_id, after }) => `${after ? 'gains' : 'loses'} ${policy_id}`).join(', ');
}
