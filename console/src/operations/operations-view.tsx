import { Code, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, get } from '../api.ts';
import { Loaded, Warning } from '../loading.tsx';
import { DeadLetters } from './dead-letters.tsx';
import { Jobs } from './jobs.tsx';
import { Keys } from './keys.tsx';
import { ReadModels } from './read-models.tsx';
import { Webhooks } from './webhooks.tsx';

/** The key of this tab. */
export type Me = Schemas['MeDto'];

/** What operators see and do, as far as the key permits it. */
export function OperationsView() {
  const me = useQuery({ queryKey: ['me'], queryFn: ({ signal }) => get<Me>('v1/me', {}, signal) });
  return (
    <Stack>
      <Title order={1}>Operations</Title>
      <Loaded query={me} what="what the key permits">
        {(mine) => <Sections me={mine} />}
      </Loaded>
    </Stack>
  );
}

function Sections({ me }: { me: Me }) {
  const [shown, show] = useState<string | null>(null);
  const isOperator = me.scopes.includes('ops');
  const hasWebhooks = me.scopes.includes('webhooks:write');
  return (
    <>
      <Text size="sm" c="dimmed">
        Key <Code>{me.key_id}</Code>
        {me.organization !== null && <> of {me.organization}</>}: {me.scopes.join(', ')}.
      </Text>
      {isOperator && (
        <>
          <ReadModels onStarted={show} />
          <Jobs shown={shown} show={show} />
          <DeadLetters />
          <Keys me={me} />
        </>
      )}
      {hasWebhooks && <Webhooks />}
      {!isOperator && !hasWebhooks && (
        <Warning>
          This key has neither the scope ops nor webhooks:write, so there is nothing here that it permits.
        </Warning>
      )}
    </>
  );
}
