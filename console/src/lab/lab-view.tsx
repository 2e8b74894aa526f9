import { useMutation } from '@tanstack/react-query';
import { get } from '../api.ts';
import { Time } from '../format.tsx';
import { Head } from '../head.tsx';
import { Failure, Loaded } from '../loading.tsx';
import { hrefOf } from '../place.ts';
import { Region } from '../region.tsx';
import { Term } from '../term.tsx';
import { AccessPolicyView } from './access-policy-view.tsx';
import { AccessView } from './access-view.tsx';
import { storeDraft } from './draft.ts';
import { DraftView } from './draft-view.tsx';
import {
  AP_PATH,
  type ListedAccessPolicy,
  type ListedPolicy,
  nameAndNumber,
  nextId,
  useAccessPolicies,
  usePolicies,
} from './policies.ts';
import { type Me, useMe } from './needs.tsx';
import { PolicyView } from './policy-view.tsx';
import { ReplayView } from './replay-view.tsx';

/** The policy lab: `#/lab`, and in it a policy, a replay or a draft. */
export function LabView({ id }: { id: string }) {
  if (id === 'draft') return <DraftView />;
  if (id === 'access') return <AccessView />;
  if (id.startsWith('rpl_')) return <ReplayView key={id} replayId={id} />;
  if (id.startsWith('AP_')) return <AccessPolicyView key={id} policyId={id} />;
  if (id !== '') return <PolicyView key={id} policyId={id} />;
  return (
    <>
      <h1>Policy lab</h1>
      <p className="actions">
        <a href={hrefOf('lab', 'draft')}>Draft of a validation policy</a>
        <a href={hrefOf('lab', 'access')}>Draft of an access policy</a>
      </p>
      <ValidationPolicies />
      <AccessPolicies />
    </>
  );
}

function ValidationPolicies() {
  const query = usePolicies();
  return (
    <section aria-labelledby="vps-title">
      <h2 id="vps-title">
        <Term name="VP">Validation policies</Term>
      </h2>
      <Loaded query={query} what="the validation policies">
        {(policies) => (
          <>
            <p>
              The platform’s <Term name="Lens">lens</Term> is{' '}
              {policies.find(isPlatforms) ? (
                <a href={hrefOf('lab', policies.find(isPlatforms)!.policy_id)}>
                  {policies.find(isPlatforms)!.policy_id}
                </a>
              ) : (
                <strong>the model’s own</strong>
              )}
              .
            </p>
            {policies.length === 0 ? (
              <p>There is no validation policy yet.</p>
            ) : (
              <Region label="List of validation policies">
                <table>
                  <Head columns={['Name', 'Owner', 'Versions', 'Active for', 'Latest from']} />
                  <tbody>
                    {byName(policies).map(({ name, versions }) => {
                      const latest = versions.at(-1)!;
                      return (
                        <tr key={name}>
                          <th scope="row">
                            <a href={hrefOf('lab', latest.policy_id)}>{name}</a>
                          </th>
                          <td>{latest.tris_org}</td>
                          <td className="versions">
                            {versions.map(({ policy_id, status }) => (
                              <span key={policy_id}>
                                <a href={hrefOf('lab', policy_id)} aria-label={policy_id}>
                                  V{nameAndNumber(policy_id)[1]}
                                </a>
                                {status === 'retired' && ' (retired)'}{' '}
                              </span>
                            ))}
                          </td>
                          <td>
                            {versions.flatMap(({ policy_id, active_for, tris_org }) =>
                              active_for.map((scope) => (
                                <span key={`${policy_id} ${scope}`} className="tag">
                                  V{nameAndNumber(policy_id)[1]}: {scope === 'platform' ? 'the platform' : tris_org}
                                </span>
                              )),
                            )}
                          </td>
                          <td>
                            <Time value={latest.created_at} />
                          </td>
                        </tr>
                      );
                    })}
                  </tbody>
                </table>
              </Region>
            )}
          </>
        )}
      </Loaded>
    </section>
  );
}

const isPlatforms = ({ active_for }: ListedPolicy): boolean => active_for.includes('platform');

function byName(policies: readonly ListedPolicy[]): { name: string; versions: ListedPolicy[] }[] {
  const names = new Map<string, ListedPolicy[]>();
  for (const policy of policies) {
    const [name] = nameAndNumber(policy.policy_id);
    names.set(name, [...(names.get(name) ?? []), policy]);
  }
  const numberOf = ({ policy_id }: ListedPolicy) => nameAndNumber(policy_id)[1];
  return [...names].map(([name, versions]) => ({
    name,
    versions: versions.sort((a, b) => numberOf(a) - numberOf(b)),
  }));
}

/** Private rules are for their owner and for operators. */
function mayRead({ visibility, tris_org }: ListedAccessPolicy, me: Me | undefined): boolean {
  return visibility === 'public' || (me !== undefined && (me.organization === null || me.organization === tris_org));
}

function AccessPolicies() {
  const query = useAccessPolicies();
  const me = useMe();
  const edit = useMutation({
    mutationFn: ({ policy_id }: ListedAccessPolicy) =>
      get<ListedAccessPolicy & { rules: unknown }>(`${AP_PATH}/${encodeURIComponent(policy_id)}`),
    onSuccess: ({ policy_id, rules, ttl_seconds, vp, visibility }) => {
      const next = nextId(policy_id, query.data ?? []);
      storeDraft('ap', { policy_id: next, rules, ttl_seconds, ...(vp !== null && { vp }), visibility });
      window.location.hash = hrefOf('lab', 'access');
    },
  });
  return (
    <section aria-labelledby="aps-title">
      <h2 id="aps-title">
        <Term name="AP">Access policies</Term>
      </h2>
      {edit.error && <Failure error={edit.error} />}
      <Loaded query={query} what="the access policies">
        {(policies) =>
          policies.length === 0 ? (
            <p>There is no access policy yet.</p>
          ) : (
            <Region label="List of access policies">
              <table>
                <Head columns={['Policy', 'Status', 'Owner', 'Lens', 'Visibility', 'Created', 'Draft']} />
                <tbody>
                  {policies.map((policy) => (
                    <tr key={policy.policy_id}>
                      <th scope="row">
                        <a href={hrefOf('lab', policy.policy_id)}>{policy.policy_id}</a>
                      </th>
                      <td>{policy.status}</td>
                      <td>{policy.tris_org ?? 'the platform’s operators'}</td>
                      <td>{policy.vp === null ? 'the owner’s' : <a href={hrefOf('lab', policy.vp)}>{policy.vp}</a>}</td>
                      <td>{policy.visibility}</td>
                      <td>
                        <Time value={policy.created_at} />
                      </td>
                      <td>
                        {mayRead(policy, me.data) && (
                          <button
                            type="button"
                            aria-label={`Draft a new version of ${policy.policy_id}`}
                            onClick={() => edit.mutate(policy)}
                          >
                            New version
                          </button>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Region>
          )
        }
      </Loaded>
    </section>
  );
}
