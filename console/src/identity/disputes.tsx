import { Anchor, Badge, Blockquote, Code, Group, NativeSelect, Stack, Text, Textarea, Title } from '@mantine/core';
import { currentSession, hasCredential, post, type Schemas } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { typed } from '../form.tsx';
import { Time } from '../format.tsx';
import { Empty } from '../loading.tsx';
import { Paged } from '../paged.tsx';
import { Note, Panel } from '../panel.tsx';
import { hrefOf } from '../place.ts';

/** The disputes of statements about an identity that the reader may see. */
export function Disputes({ trisId }: { trisId: string }) {
  return (
    <Panel title="Disputes">
      {hasCredential() ? (
        <Paged<Schemas['DisputeDto']> path="v1/disputes" field="disputes" what="disputes">
          {(all) => {
            const found = all.filter(({ tris_id }) => tris_id === trisId);
            return found.length === 0 ? (
              <Empty>None that you may see.</Empty>
            ) : (
              found.map((dispute) => <Dispute key={dispute.dispute_id} dispute={dispute} />)
            );
          }}
        </Paged>
      ) : (
        <Text>
          A person disputes a statement about them on{' '}
          <Anchor underline="always" href={hrefOf('me')}>
            their page
          </Anchor>
          . Enter a key with “API key” to see the disputes of the statements that it made; a key with <Code>ops</Code>{' '}
          sees all.
        </Text>
      )}
    </Panel>
  );
}

function Dispute({ dispute }: { dispute: Schemas['DisputeDto'] }) {
  const { tris_id, about, action_id, platform_id, verification, issuer, statement, opened_at, open, status, answers } =
    dispute;
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
      <Note>
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
      </Note>
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
      {(status === 'open' || status === 'lapsed') && currentSession() === null && <Answer dispute={dispute} />}
    </Stack>
  );
}

/** For whoever made the statement, and for operators. */
function Answer({ dispute: { dispute_id, about } }: { dispute: Schemas['DisputeDto'] }) {
  return (
    <Group>
      <Confirmed
        label="Answer"
        describes="the dispute"
        title="Answer the dispute"
        verb="Answer"
        act={(form) =>
          post(`v1/disputes/${dispute_id}/answer`, { outcome: typed(form, 'outcome'), note: typed(form, 'note') })
        }
      >
        <NativeSelect
          label="The person is"
          name="outcome"
          data={[
            {
              value: 'upheld',
              label: `right: ${about === 'action' ? 'the action is withdrawn' : 'the statement ends'}`,
            },
            { value: 'rejected', label: 'wrong: the statement stays' },
          ]}
          data-autofocus
        />
        <Textarea label="Why, for the person" name="note" rows={4} />
      </Confirmed>
    </Group>
  );
}
