import { Stack, Title } from '@mantine/core';
import { useState } from 'react';
import { KeyInUse, Needs } from '../lab/needs.tsx';
import { DeadLetters } from './dead-letters.tsx';
import { Jobs } from './jobs.tsx';
import { ReadModels } from './read-models.tsx';

/** What operators see and do. */
export function OperationsView() {
  const [shown, show] = useState<string | null>(null);
  return (
    <Stack>
      <Title order={1}>Operations</Title>
      <KeyInUse />
      <Needs scope="ops" what="The state of the service">
        <ReadModels onStarted={show} />
        <Jobs shown={shown} show={show} />
        <DeadLetters />
      </Needs>
    </Stack>
  );
}
