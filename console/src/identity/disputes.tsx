import { Anchor, Badge, Blockquote, Button, Code, Group, Stack, Text, Title } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { currentKey, get, type Schemas } from '../api.ts';
import { Time } from '../format.tsx';
import { Empty, Failure, Waiting } from '../loading.tsx';
import { Panel } from '../panel.tsx';
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
    <Panel title="Disputes">
      {currentKey() === null ? (
        <Text>
          A person disputes a statement about them with the session of their wallet. Enter a key with “API key” to see
          the disputes of the statements that it made; a key with <Code>ops</Code> sees all.
        </Text>
      ) : (
        <>
          {!data && !error && <Waiting what="the disputes" reason={failureReason} />}
          {error && <Failure error={error} retry={() => void fetchNextPage()} />}
          {data && found.length === 0 && (
            <Empty>{hasNextPage ? 'None among the first.' : 'None that this key may see.'}</Empty>
          )}
          {found.map((dispute) => (
            <Dispute key={dispute.dispute_id} dispute={dispute} />
          ))}
          {hasNextPage && (
            <Group>
              <Button disabled={isFetching} onClick={() => void fetchNextPage()}>
                Look further
              </Button>
            </Group>
          )}
        </>
      )}
    </Panel>
  );
}

function Dispute({ dispute }: { dispute: Schemas['DisputeDto'] }) {
  const { tris_id, about, action_id, platform_id, verification, issuer, statement, opened_at, open, answers } = dispute;
  return (
    <Stack component="article" gap="xs">
      <Group gap="xs">
        <Title order={3}>
          {about === 'action'
            ? 'An action'
            : about === 'verification'
              ? `The verification ${verification}`
              : 'The BAD status'}
        </Title>
        <Badge color={open ? 'yellow' : 'gray'}>{open ? 'waits for an answer' : answers.at(-1)?.outcome}</Badge>
      </Group>
      <Text size="sm" c="dimmed">
        {platform_id !== null && `On ${platform_id}, `}
        {issuer === null ? 'stated by the operators' : `stated by ${issuer}`}, opened <Time value={opened_at} />.
        {action_id !== null && (
          <>
            {' '}
            <Anchor
              underline="always"
              href={hrefOf('identity', tris_id, new URLSearchParams({ tab: 'events', event: action_id }))}
            >
              Show the action
            </Anchor>
          </>
        )}
      </Text>
      {statement !== null && (
        <Blockquote p="xs" m={0} style={{ whiteSpace: 'pre-wrap' }}>
          {statement}
        </Blockquote>
      )}
      {answers.map(({ outcome, answered_at, decided_by, note }) => (
        <Text key={answered_at} size="sm">
          <strong>{outcome === 'upheld' ? 'Upheld' : 'Rejected'}</strong>
          {decided_by !== null && ` by ${decided_by}`}, <Time value={answered_at} />
          {note !== null && `: ${note}`}
        </Text>
      ))}
    </Stack>
  );
}
