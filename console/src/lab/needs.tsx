import { Code } from '@mantine/core';
import type { ReactNode } from 'react';
import { type Schemas, currentKey, hasCredential } from '../api.ts';
import { Loaded } from '../loading.tsx';
import { useGet } from '../queries.ts';
import { Note } from '../panel.tsx';

export type Me = Schemas['MeDto'];

/** What the key may do; no data without a key. */
export const useMe = () => useGet<'MeDto'>('v1/me', {}, { enabled: hasCredential() });

/** Whether the key has the scope. Without a key it has none. */
export function useMay(scope: Me['scopes'][number]): boolean {
  return useMe().data?.scopes.includes(scope) ?? false;
}

/** What the key permits, or which scope it lacks, before a request is refused. Without a scope, any key permits it. */
export function Needs(props: { scope?: Me['scopes'][number]; what: string; children?: ReactNode }) {
  const { scope, what, children } = props;
  const { data } = useMe();
  if (currentKey() === null) {
    return (
      <Note>
        {what} needs a key
        {scope && ' with the scope '}
        {scope && <Code>{scope}</Code>}.
      </Note>
    );
  }
  if (scope === undefined || data?.scopes.includes(scope)) return children;
  return (
    data && (
      <Note>
        {what} needs the scope <Code>{scope}</Code>, which the key <Code>{data.key_id}</Code> does not have.
      </Note>
    )
  );
}

/** Whose the key of this tab is, and what it permits. */
export function KeyInUse() {
  const me = useMe();
  if (currentKey() === null) return null;
  return (
    <Loaded query={me} what="what the key permits">
      {({ key_id, organization, scopes }) => (
        <Note>
          Key <Code>{key_id}</Code>
          {organization !== null && <> of {organization}</>}: {scopes.join(', ')}.
        </Note>
      )}
    </Loaded>
  );
}
