import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { post } from '../api.ts';
import { decimal, Time } from '../format.tsx';
import { Head } from '../head.tsx';
import { Failure, Loaded } from '../loading.tsx';
import { hrefOf } from '../place.ts';
import { Region } from '../region.tsx';
import { Weights } from './draft-editor.tsx';
import { isConfiguration, storeDraft, type VpDraft } from './draft.ts';
import { nextId, type Policy, type Replay, type Scope, SCOPES, usePolicies, usePolicy, VP_PATH } from './policies.ts';
import { Needs, useMay, useMe } from './needs.tsx';
import { SwitchDialog } from './switch-dialog.tsx';

/** One version of a validation policy. */
export function PolicyView({ policyId }: { policyId: string }) {
  const query = usePolicy(policyId);
  return (
    <>
      <h1>{policyId}</h1>
      <p className="actions">
        <a href={hrefOf('lab')}>All policies</a>
      </p>
      <Loaded query={query} what="the policy">
        {(policy) => <Shown policy={policy} />}
      </Loaded>
    </>
  );
}

function Shown({ policy }: { policy: Policy }) {
  const { policy_id, tris_org, status, active_for, computed_weight, metadata, warnings } = policy;
  return (
    <>
      <dl className="details">
        <dt>Owner</dt>
        <dd>{tris_org}</dd>
        <dt>Status</dt>
        <dd>{status}</dd>
        <dt>Active lens of</dt>
        <dd>
          {active_for.length === 0
            ? 'nobody'
            : active_for.map((scope) => (scope === 'platform' ? 'the platform' : tris_org)).join(' and ')}
        </dd>
        <dt>Version</dt>
        <dd>{metadata.version}</dd>
        <dt>Weights</dt>
        <dd>
          {decimal(computed_weight)}, declared {decimal(metadata.total_weight)}
        </dd>
        <dt>Content</dt>
        <dd>
          <code>{policy.content_hash}</code>
        </dd>
      </dl>
      {warnings.length > 0 && (
        <div className="warning">
          {warnings.map(({ pointer, message }) => (
            <span key={`${pointer} ${message}`}>{message}</span>
          ))}
        </div>
      )}
      <Actions policy={policy} isConfiguration={isConfiguration(computed_weight)} />
      <div className="columns">
        <section aria-labelledby="inputs-title">
          <h2 id="inputs-title">Inputs</h2>
          <Region label="List of inputs">
            <table>
              <Head columns={['Metric', 'Criticality', 'Weight']} numbers={['Weight']} />
              <tbody>
                {policy.inputs.map(({ metric, criticality, weight }) => (
                  <tr key={metric}>
                    <th scope="row">{metric}</th>
                    <td>{criticality}</td>
                    <td className="number">{decimal(weight)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Region>
        </section>
        <section aria-labelledby="weights-title">
          <h2 id="weights-title">Weights</h2>
          <Weights draft={policy} />
        </section>
      </div>
      <section aria-labelledby="states-title">
        <h2 id="states-title">History</h2>
        <ul>
          {policy.history.map(({ status: state, scope, replay_id, at, position }) => (
            <li key={`${position} ${state}`}>
              <Time value={at} /> {state.replace('_', ' ')}
              {scope && ` for ${scope === 'platform' ? 'the platform' : tris_org}`}
              {replay_id && (
                <>
                  {' '}
                  after <a href={hrefOf('lab', replay_id)}>a replay</a>
                </>
              )}
            </li>
          ))}
        </ul>
      </section>
      <p className="small">
        A policy never changes. <code>{policy_id}</code> stays as it is when a new version is created.
      </p>
    </>
  );
}

function Actions({ policy, isConfiguration: canServePlatform }: { policy: Policy; isConfiguration: boolean }) {
  const me = useMe();
  const mayWrite = useMay('policies:write');
  const mayOperate = useMay('ops');
  const [chosen, setScope] = useState<Scope | null>(null);
  // A key of an organization acts for it, and a policy of other weights cannot serve the platform.
  const scope = chosen ?? (canServePlatform && !me.data?.organization ? 'platform' : 'organization');
  const isUnfit = scope === 'platform' && !canServePlatform;
  const maySwitch = scope === 'platform' ? mayOperate : mayWrite;
  const all = usePolicies();
  const { policy_id, tris_org, active_for, status } = policy;
  const replay = useMutation({
    mutationFn: () => post<Replay>(`${VP_PATH}/${encodeURIComponent(policy_id)}/replay`, { scope }),
    onSuccess: ({ replay_id }) => {
      window.location.hash = hrefOf('lab', replay_id);
    },
  });
  const edit = () => {
    const { inputs, metadata } = policy;
    const draft: VpDraft = { policy_id: nextId(policy_id, all.data ?? []), tris_org, inputs, metadata };
    storeDraft('vp', draft);
    window.location.hash = hrefOf('lab', 'draft');
  };
  return (
    <section aria-labelledby="actions-title">
      <h2 id="actions-title">Try and promote</h2>
      <Needs scope="policies:write" what="A replay" />
      {scope === 'platform' && <Needs scope="ops" what="A promotion for the platform" />}
      {isUnfit && (
        <p className="small">
          The weights add up to {decimal(policy.computed_weight)}; for the platform they must add up to 0.95 to 1.05.
        </p>
      )}
      <p className="actions">
        <label>
          For{' '}
          <select value={scope} onChange={({ target }) => setScope(target.value as Scope)}>
            {SCOPES.map((name) => (
              <option key={name} value={name}>
                {name === 'platform' ? 'the platform' : tris_org}
              </option>
            ))}
          </select>
        </label>
        <button
          type="button"
          className="primary"
          disabled={!mayWrite || replay.isPending}
          onClick={() => replay.mutate()}
        >
          Replay over everyone
        </button>
        {!active_for.includes(scope) && status !== 'retired' && (
          <SwitchDialog
            policyId={policy_id}
            owner={tris_org}
            scope={scope}
            action="promote"
            isPermitted={maySwitch && !isUnfit}
          />
        )}
        {active_for.includes(scope) && (
          <SwitchDialog policyId={policy_id} owner={tris_org} scope={scope} action="rollback" isPermitted={maySwitch} />
        )}
        <button type="button" onClick={edit}>
          Draft a new version
        </button>
      </p>
      {replay.error && <Failure error={replay.error} retry={() => replay.mutate()} />}
    </section>
  );
}
