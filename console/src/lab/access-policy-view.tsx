import { useQuery } from '@tanstack/react-query';
import { ApiError, get } from '../api.ts';
import { Time } from '../format.tsx';
import { Loaded } from '../loading.tsx';
import { hrefOf } from '../place.ts';
import { Region } from '../region.tsx';
import { storeDraft } from './draft.ts';
import { AP_PATH, type ListedAccessPolicy, nextId, useAccessPolicies } from './policies.ts';

type AccessPolicy = ListedAccessPolicy & { rules: unknown };

/** One version of an access policy. Its rules are shown to who may read them. */
export function AccessPolicyView({ policyId }: { policyId: string }) {
  const all = useAccessPolicies();
  const read = useQuery({
    queryKey: ['lab', 'ap', policyId],
    queryFn: ({ signal }) => get<AccessPolicy>(`${AP_PATH}/${encodeURIComponent(policyId)}`, {}, signal),
  });
  const listed = all.data?.find(({ policy_id }) => policy_id === policyId);
  const isPrivate = read.error instanceof ApiError && read.error.status !== 404 && listed !== undefined;
  return (
    <>
      <h1>{policyId}</h1>
      <p className="actions">
        <a href={hrefOf('lab')}>All policies</a>
      </p>
      {isPrivate ? (
        <Shown policy={listed} />
      ) : (
        <Loaded query={read} what="the policy">
          {(policy) => <Shown policy={policy} rules={policy.rules} />}
        </Loaded>
      )}
    </>
  );
}

function Shown({ policy, rules }: { policy: ListedAccessPolicy; rules?: unknown }) {
  const all = useAccessPolicies();
  const { policy_id, tris_org, status, visibility, vp, ttl_seconds, created_at } = policy;
  const edit = () => {
    const next = nextId(policy_id, all.data ?? []);
    storeDraft('ap', { policy_id: next, rules, ttl_seconds, ...(vp !== null && { vp }), visibility });
    window.location.hash = hrefOf('lab', 'access');
  };
  return (
    <div className="overview">
      <section aria-labelledby="rules-title">
        <h2 id="rules-title">Rules</h2>
        {rules === undefined ? (
          <p>The rules are private: their owner and operators may read them.</p>
        ) : (
          <>
            <Region label="Rules as JSON">
              <pre>{JSON.stringify(rules, null, 2)}</pre>
            </Region>
            <p className="actions">
              <button type="button" onClick={edit}>
                Draft a new version
              </button>
            </p>
          </>
        )}
      </section>
      <section aria-labelledby="about-title">
        <h2 id="about-title">About</h2>
        <dl className="details">
          <dt>Owner</dt>
          <dd>
            {tris_org === null ? 'the platform’s operators' : <a href={hrefOf('identity', tris_org)}>{tris_org}</a>}
          </dd>
          <dt>Status</dt>
          <dd>{status}</dd>
          <dt>Who may read the rules</dt>
          <dd>{visibility === 'public' ? 'everybody' : 'its owner and operators'}</dd>
          <dt>Lens</dt>
          <dd>{vp === null ? 'the owner’s' : <a href={hrefOf('lab', vp)}>{vp}</a>}</dd>
          <dt>Tokens last</dt>
          <dd>{ttl_seconds} s</dd>
          <dt>Created</dt>
          <dd>
            <Time value={created_at} />
          </dd>
        </dl>
      </section>
    </div>
  );
}
