import { Alert, Button, Code, EmptyState, Group, List, Loader, Stack, Text } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ApiError } from './api.ts';
import { Note } from './panel.tsx';

/** What a query shows: its data, that it is being loaded, and why there is none, or none that is newer. */
export function Loaded<T>(props: {
  query: Pick<UseQueryResult<T>, 'data' | 'error' | 'failureReason'> & { refetch: () => unknown };
  /** What is being loaded, for "Loading …". */
  what: string;
  children: (data: T) => ReactNode;
}) {
  const { query, what, children } = props;
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
    <Group gap="xs" role="status">
      <Loader size="xs" />
      <Note>
        Loading {what}…{reason ? ` ${reason.message} Trying again.` : ''}
      </Note>
    </Group>
  );
}

/** What stands where there is nothing to show. */
export function Empty({ children }: { children: ReactNode }) {
  return <EmptyState size="sm" withIndicatorBackground description={children} />;
}

/** What should be seen before the rest. */
export function Warning({ children }: { children: ReactNode }) {
  return (
    <Alert color="yellow" role="note">
      {children}
    </Alert>
  );
}

/** What a request with such an answer gets again, however often it is sent. */
const FINAL = new Set([400, 404, 409, 422]);

/** The problem's own text. */
export function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  const problem = error instanceof ApiError ? error : null;
  return (
    <Alert color="red">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">{error.message}</Text>
        {problem && problem.errors.length > 1 && (
          <List size="sm">
            {problem.errors.map(({ pointer, message }) => (
              <List.Item key={`${pointer} ${message}`}>
                <Code>{pointer}</Code> {message}
              </List.Item>
            ))}
          </List>
        )}
        {problem?.status === 401 && <Text size="sm">Enter a key with “API key” at the top of the page.</Text>}
        <Group gap="sm">
          {retry && !FINAL.has(problem?.status ?? 0) && <Button onClick={retry}>Try again</Button>}
          {problem && (
            <Text size="xs" c="dimmed">
              <Code>{problem.code}</Code>
              {problem.requestId && (
                <>
                  {' '}
                  request <Code>{problem.requestId}</Code>
                </>
              )}
            </Text>
          )}
        </Group>
      </Stack>
    </Alert>
  );
}
