import { useQuery } from '@tanstack/react-query';
import { type Schemas, currentKey, get } from '../api.ts';

/** What the key may do; no data without a key. */
export const useMe = () =>
  useQuery({
    queryKey: ['me'],
    queryFn: ({ signal }) => get<Schemas['MeDto']>('v1/me', {}, signal),
    enabled: currentKey() !== null,
  });

/** Says before a request is refused that the key does not permit it. */
export function Needs({ scope, what }: { scope: Schemas['MeDto']['scopes'][number]; what: string }) {
  const { data } = useMe();
  if (currentKey() === null) {
    return (
      <p className="small">
        {what} needs a key with the scope <code>{scope}</code>.
      </p>
    );
  }
  if (!data || data.scopes.includes(scope)) return null;
  return (
    <p className="small">
      {what} needs the scope <code>{scope}</code>, which the key <code>{data.key_id}</code> does not have.
    </p>
  );
}
