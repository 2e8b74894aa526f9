import { Anchor, Badge, Button, Code, Group, List, NativeSelect, Stack, Text, Title } from '@mantine/core';
import { useState } from 'react';
import { decimal, Time } from '../format.tsx';
import { hrefOf } from '../place.ts';
import { Details, Note, Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';
import { Loaded, Warning } from '../loading.tsx';
import { Weights } from './draft-editor.tsx';
import { isConfiguration, storeDraft, type VpDraft } from './draft.ts';
import { nextId, type Policy, type Scope, SCOPES, usePolicies, usePolicy } from './policies.ts';
import { Needs, useMe } from './needs.tsx';
import { StartReplay } from './replay-view.tsx';
import { SwitchDialog } from './switch-dialog.tsx';

/** One version of a validation policy. */
export function PolicyView({ policyId }: { policyId: string }) {
  const query = usePolicy(policyId);
  return (
    <Stack>
      <Title order={1}>{policyId}</Title>
      <Group gap="xs">
        <Anchor href={hrefOf('lab')}>All policies</Anchor>
      </Group>
      <Loaded query={query} what="the policy">
        {(policy) => <Shown policy={policy} />}
      </Loaded>
    </Stack>
  );
}

function Shown({ policy }: { policy: Policy }) {
  const { policy_id, tris_org, status, active_for, computed_weight, metadata, warnings } = policy;
  return (
    <>
      <Panel title="About">
        <Details
          rows={[
            ['Owner', tris_org],
            ['Status', <Badge key="status">{status}</Badge>],
            [
              'Active lens of',
              active_for.length === 0
                ? 'nobody'
                : active_for.map((scope) => (scope === 'platform' ? 'the platform' : tris_org)).join(' and '),
            ],
            ['Version', metadata.version],
            ['Weights', `${decimal(computed_weight)}, declared ${decimal(metadata.total_weight)}`],
            ['Content', <Code key="content">{policy.content_hash}</Code>],
          ]}
        />
      </Panel>
      {warnings.length > 0 && (
        <Warning>
          {warnings.map(({ pointer, message }) => (
            <Text key={`${pointer} ${message}`} size="sm">
              {message}
            </Text>
          ))}
        </Warning>
      )}
      <Actions policy={policy} />
      <div className="grid columns">
        <Panel title="Inputs">
          <Rows
            caption="List of inputs"
            empty="None."
            head={['Metric', 'Criticality', 'Weight']}
            rows={policy.inputs.map(({ metric, criticality, weight }) => [metric, criticality, decimal(weight)])}
          />
        </Panel>
        <Panel title="Weights">
          <Weights draft={policy} />
        </Panel>
      </div>
      <Panel title="History">
        <List size="sm">
          {policy.history.map(({ status: state, scope, replay_id, at, position }) => (
            <List.Item key={`${position} ${state}`}>
              <Time value={at} /> {state.replace('_', ' ')}
              {scope && ` for ${scope === 'platform' ? 'the platform' : tris_org}`}
              {replay_id && (
                <>
                  {' '}
                  after <Anchor href={hrefOf('lab', replay_id)}>a replay</Anchor>
                </>
              )}
            </List.Item>
          ))}
        </List>
      </Panel>
      <Note>
        A policy never changes. <Code>{policy_id}</Code> stays as it is when a new version is created.
      </Note>
    </>
  );
}

function Actions({ policy }: { policy: Policy }) {
  const me = useMe();
  const canServePlatform = isConfiguration(policy.computed_weight);
  const [chosen, setScope] = useState<Scope | null>(null);
  // A key of an organization acts for it, and a policy of other weights cannot serve the platform.
  const scope = chosen ?? (canServePlatform && !me.data?.organization ? 'platform' : 'organization');
  const all = usePolicies();
  const { policy_id, tris_org } = policy;
  const edit = () => {
    const { inputs, metadata } = policy;
    const draft: VpDraft = { policy_id: nextId(policy_id, all.data ?? []), tris_org, inputs, metadata };
    storeDraft('vp', draft);
    window.location.hash = hrefOf('lab', 'draft');
  };
  return (
    <Panel title="Try and promote">
      <Needs scope="policies:write" what="A replay" />
      {scope === 'platform' && <Needs scope="ops" what="A promotion for the platform" />}
      <Group gap="xs">
        <NativeSelect
          aria-label="For"
          size="xs"
          maw="100%"
          value={scope}
          onChange={({ target }) => setScope(target.value as Scope)}
          data={SCOPES.map((name) => ({
            value: name,
            label: `for ${name === 'platform' ? 'the platform' : tris_org}`,
          }))}
        />
        <StartReplay label="Replay over everyone" policyId={policy_id} scope={scope} />
        <Button onClick={edit}>Draft a new version</Button>
        <SwitchDialog policy={policy} scope={scope} />
      </Group>
    </Panel>
  );
}
