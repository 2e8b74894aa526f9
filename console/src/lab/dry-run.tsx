import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { ApiError, type FieldError, post } from '../api.ts';
import { count, Rating, score, signed } from '../format.tsx';
import { Head } from '../head.tsx';
import { Failure } from '../loading.tsx';
import { hrefOf } from '../place.ts';
import { Region } from '../region.tsx';
import { Change, Reasons } from './change.tsx';
import { useStoredText } from './draft.ts';
import { Needs } from './needs.tsx';
import { idsIn, under } from './fields.tsx';
import {
  ACCESS_POLICIES,
  type EvaluatedSubject,
  type Evaluation,
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
  const client = useQueryClient();
  const active = activeOf(useAccessPolicies().data ?? []);
  const ids = idsIn(text);
  const draft = JSON.stringify(policy);
  const run = useMutation({
    mutationFn: async ({ subjects }: { subjects: readonly string[] | undefined; draft: string }) => {
      // The list may still be on its way.
      const listed = withAccess && (await client.ensureQueryData(ACCESS_POLICIES));
      return post<Evaluation>(`${VP_PATH}/evaluate`, {
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
    onError: (error) => onRefused(error instanceof ApiError ? under('/policy', error.errors) : []),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    run.mutate({ subjects: ids, draft });
  };
  const errors = run.error instanceof ApiError ? run.error.errors : [];
  const isWrong = errors.some(({ pointer }) => pointer.startsWith('/subjects')) || ids.length > MOST_SUBJECTS;
  return (
    <section aria-labelledby="dry-run-title">
      <h2 id="dry-run-title">Dry run</h2>
      <Needs scope="policies:write" what="A dry run" />
      <form onSubmit={submit}>
        <label>
          Identities, up to {MOST_SUBJECTS}, separated by spaces or lines
          <textarea
            className="json"
            rows={3}
            spellCheck={false}
            value={text}
            aria-invalid={isWrong}
            onChange={({ target }) => setText(target.value)}
          />
        </label>
        {ids.length > MOST_SUBJECTS && (
          <p className="problem small">
            {count(ids.length)} are more than {MOST_SUBJECTS}.
          </p>
        )}
        <p className="actions">
          <label>
            Compared with the lens of{' '}
            <select value={scope} onChange={({ target }) => setScope(target.value as Scope)}>
              {SCOPES.map((name) => (
                <option key={name} value={name}>
                  {name === 'platform' ? 'the platform' : 'its organization'}
                </option>
              ))}
            </select>
          </label>
          {active.length > 0 && (
            <label>
              <input type="checkbox" checked={withAccess} onChange={({ target }) => setWithAccess(target.checked)} />{' '}
              With access decisions
              {active.length > MOST_ACCESS_POLICIES && `, of the first ${MOST_ACCESS_POLICIES} policies`}
            </label>
          )}
          <button
            type="submit"
            className="primary"
            disabled={policy === null || ids.length === 0 || ids.length > MOST_SUBJECTS || run.isPending}
          >
            Try on these
          </button>
          <button
            type="button"
            disabled={policy === null || run.isPending}
            onClick={() => run.mutate({ subjects: undefined, draft })}
          >
            Try on everyone
          </button>
        </p>
      </form>
      <p role="status" className="small">
        {run.isPending && 'Comparing…'}
      </p>
      {run.error && <Failure error={run.error} retry={() => run.mutate({ ...run.variables, draft })} />}
      {run.data && (
        <>
          {run.variables.draft !== draft && <p className="warning">The draft has changed since.</p>}
          <p>
            <strong>{run.data.lens.policy_id ?? 'the model’s own lens'}</strong> → <strong>{run.data.policy_id}</strong>
          </p>
          {run.data.results.length > 0 ? (
            <Subjects results={run.data.results} />
          ) : (
            <Change summary={run.data.summary} lenses={null} />
          )}
        </>
      )}
    </section>
  );
}

function Subjects({ results }: { results: readonly EvaluatedSubject[] }) {
  return (
    <Region label="Identities before and after">
      <table>
        <Head
          columns={['Identity', 'Before', 'After', 'Change', 'Because of, in TCT', 'Access']}
          numbers={['Before', 'After', 'Change']}
        />
        <tbody>
          {results.map(({ tris_id, current, projected, reasons, access, problem }) => (
            <tr key={tris_id}>
              <th scope="row">
                <a href={hrefOf('identity', tris_id)}>{tris_id}</a>
              </th>
              {current && projected ? (
                <>
                  <td className="number">
                    {score(current.score)} <Rating name={current.score_rating} />
                  </td>
                  <td className="number">
                    {score(projected.score)} <Rating name={projected.score_rating} />
                  </td>
                  <td className={projected.score < current.score ? 'number negative' : 'number'}>
                    {signed(projected.score - current.score, score)}
                  </td>
                  <td>
                    <Reasons reasons={reasons} />
                  </td>
                  <td className="small">{accessText(access)}</td>
                </>
              ) : (
                <td colSpan={5}>{problem?.detail}</td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </Region>
  );
}

function accessText(access: EvaluatedSubject['access']): string {
  const flips = access.filter(({ before, after }) => before !== after);
  if (access.length === 0) return '';
  if (flips.length === 0) return 'same';
  return flips.map(({ policy_id, after }) => `${after ? 'gains' : 'loses'} ${policy_id}`).join(', ');
}
