import { useInfiniteQuery } from '@tanstack/react-query';
import { currentKey, get, type Schemas } from '../api.ts';
import { Time } from '../format.tsx';
import { Failure, Waiting } from '../loading.tsx';
import { hrefOf } from '../place.ts';

const PAGE = 1000;

/** The disputes of statements about an identity that the key may read. */
export function Disputes({ trisId }: { trisId: string }) {
  const query = useInfiniteQuery({
    queryKey: ['disputes', 'all'],
    queryFn: ({ pageParam: cursor, signal }) =>
      get<Schemas['DisputesDto']>('v1/disputes', { limit: PAGE, cursor }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
    enabled: currentKey() !== null,
  });
  const { data, error, hasNextPage, isFetching, fetchNextPage, failureReason } = query;
  const found = data?.pages.flatMap(({ disputes }) => disputes).filter(({ tris_id }) => tris_id === trisId) ?? [];
  return (
    <section aria-labelledby="disputes-title">
      <h2 id="disputes-title">Disputes</h2>
      {currentKey() === null ? (
        <p>
          A person disputes a statement about them with the session of their wallet. Enter a key with “API key” to see
          the disputes of the statements that it made; a key with <code>ops</code> sees all.
        </p>
      ) : (
        <>
          {!data && !error && <Waiting what="the disputes" reason={failureReason} />}
          {error && <Failure error={error} retry={() => void fetchNextPage()} />}
          {data && found.length === 0 && <p>{hasNextPage ? 'None among the first.' : 'None that this key may see.'}</p>}
          {found.map((dispute) => (
            <Dispute key={dispute.dispute_id} dispute={dispute} />
          ))}
          {hasNextPage && (
            <button type="button" disabled={isFetching} onClick={() => void fetchNextPage()}>
              Look further
            </button>
          )}
        </>
      )}
    </section>
  );
}

function Dispute({ dispute }: { dispute: Schemas['DisputeDto'] }) {
  const { tris_id, about, action_id, platform_id, verification, issuer, statement, opened_at, open, answers } = dispute;
  return (
    <article className="card">
      <h3>
        {about === 'action'
          ? 'An action'
          : about === 'verification'
            ? `The verification ${verification}`
            : 'The BAD status'}{' '}
        <span className={open ? 'tag open' : 'tag'}>{open ? 'waits for an answer' : answers.at(-1)?.outcome}</span>
      </h3>
      <p className="small">
        {platform_id !== null && `On ${platform_id}, `}
        {issuer === null ? 'stated by the operators' : `stated by ${issuer}`}, opened <Time value={opened_at} />.
        {action_id !== null && (
          <>
            {' '}
            <a href={hrefOf('identity', tris_id, new URLSearchParams({ tab: 'events', event: action_id }))}>
              Show the action
            </a>
          </>
        )}
      </p>
      {statement !== null && <blockquote>{statement}</blockquote>}
      {answers.map(({ outcome, answered_at, decided_by, note }) => (
        <p key={answered_at}>
          <strong>{outcome === 'upheld' ? 'Upheld' : 'Rejected'}</strong>
          {decided_by !== null && ` by ${decided_by}`}, <Time value={answered_at} />
          {note !== null && `: ${note}`}
        </p>
      ))}
    </article>
  );
}
