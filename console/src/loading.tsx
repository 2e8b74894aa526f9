import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ApiError } from './api.ts';

/** What a query shows: its data, that it is being loaded, and why there is none, or none that is newer. */
export function Loaded<T>({
  query,
  what,
  children,
}: {
  query: UseQueryResult<T, Error>;
  /** What is being loaded, for "Loading …". */
  what: string;
  children: (data: T) => ReactNode;
}) {
  if (query.data === undefined && !query.error) return <Waiting what={what} reason={query.failureReason} />;
  return (
    <>
      {query.error && <Failure error={query.error} retry={() => void query.refetch()} />}
      {query.data !== undefined && children(query.data)}
    </>
  );
}

/** @param reason of a first failure, while the request is being repeated */
export function Waiting({ what, reason }: { what: string; reason?: Error | null }) {
  return (
    <p role="status" className="waiting">
      Loading {what}…{reason ? ` ${reason.message} Trying again.` : ''}
    </p>
  );
}

/** What a request with such an answer gets again, however often it is sent. */
const FINAL = new Set([400, 404, 409, 422]);

/** The problem's own text. */
export function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  const problem = error instanceof ApiError ? error : null;
  return (
    <div role="alert" className="failure">
      <p>{error.message}</p>
      {problem && problem.errors.length > 1 && (
        <ul>
          {problem.errors.map(({ pointer, message }) => (
            <li key={`${pointer} ${message}`}>
              <code>{pointer}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {problem?.status === 401 && <p>Enter a key with “API key” at the top of the page.</p>}
      <p className="actions">
        {retry && !FINAL.has(problem?.status ?? 0) && (
          <button type="button" onClick={retry}>
            Try again
          </button>
        )}
        {problem && (
          <small>
            <code>{problem.code}</code>
            {problem.requestId && (
              <>
                {' '}
                request <code>{problem.requestId}</code>
              </>
            )}
          </small>
        )}
      </p>
    </div>
  );
}
