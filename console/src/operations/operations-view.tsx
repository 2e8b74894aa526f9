import { Stack, Title } from '@mantine/core';
import { useState } from 'react';
import { currentKey } from '../api.ts';
import { KeyInUse, Needs, useMe } from '../lab/needs.tsx';
import { Loaded } from '../loading.tsx';
import { DeadLetters } from './dead-letters.tsx';
import { Jobs } from './jobs.tsx';
import { ReadModels } from './read-models.tsx';

/** What operators see and do. */
export function OperationsView() {
  const me = useMe();
  const [shown, show] = useState<string | null>(null);
  return (
    <Stack>
      <Title order={1}>Operations</Title>
      {currentKey() !== null && (
        <Loaded query={me} what="what the key permits">
          {(mine) => <KeyInUse me={mine} />}
        </Loaded>
      )}
      <Needs scope="ops" what="The state of the service" />
      {me.data?.scopes.includes('ops') && (
        <>
          <ReadModels onStarted={show} />
          <Jobs shown={shown} show={show} />
          <DeadLetters />
        </>
      )}
    </Stack>
  );
}
