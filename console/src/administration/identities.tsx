import { Button, Group } from '@mantine/core';
import type { FormEvent } from 'react';
import { Field, typed } from '../form.tsx';
import { trisIdOf } from '../identity/search.tsx';
import { Standing } from '../identity/standing.tsx';
import { Panel } from '../panel.tsx';
import { setParameters } from '../place.ts';

/** What operators and issuers state about the identity `of` in the address. */
export function Identities({ parameters }: { parameters: URLSearchParams }) {
  const of = parameters.get('of');
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const text = typed(new FormData(event.currentTarget), 'of');
    if (text !== undefined) setParameters({ of: trisIdOf(text) });
  };
  return (
    <>
      <Panel title="BAD status and verifications of an identity">
        <form onSubmit={submit}>
          <Group gap="xs" align="flex-end">
            <Field key={of} label="TRIS id, or wallet" name="of" required defaultValue={of ?? ''} flex="1 1 14rem" />
            <Button type="submit" size="sm">
              Show
            </Button>
          </Group>
        </form>
      </Panel>
      {of !== null && <Standing key={of} trisId={of} />}
    </>
  );
}
