import { Code, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type Schemas, currentKey, get, hasCredential } from '../api.ts';

export type Me = Schemas['MeDto'];

/** What the key may do; no data without a key. */
export const useMe = () =>
  useQuery({
    queryKey: ['me'],
    queryFn: ({ signal }) => get<Me>('v1/me', {}, signal),
    enabled: hasCredential(),
  });

/** Whether the key has the scope. Without a key it has none. */
export function useMay(scope: Me['scopes'][number]): boolean {
  return useMe().data?.scopes.includes(scope) ?? false;
}

/** Says before a request is refused that the key does not permit it. Without a scope, any key does. */
export function Needs({ scope, what }: { scope?: Me['scopes'][number]; what: string }) {
  const { data } = useMe();
  if (currentKey() === null) {
    return (
      <Text size="sm" c="dimmed">
        {what} needs a key
        {scope && (
          <>
            {' '}
            with the scope <Code>{scope}</Code>
          </>
        )}
        .
      </Text>
    );
  }
  if (!data || scope === undefined || data.scopes.includes(scope)) return null;
  return (
    <Text size="sm" c="dimmed">
      {what} needs the scope <Code>{scope}</Code>, which the key <Code>{data.key_id}</Code> does not have.
    </Text>
  );
}

/** Whose the key of this tab is, and what it permits. */
export function KeyInUse({ me }: { me: Me }) {
  return (
    <Text size="sm" c="dimmed">
      Key <Code>{me.key_id}</Code>
      {me.organization !== null && <> of {me.organization}</>}: {me.scopes.join(', ')}.
    </Text>
  );
}
