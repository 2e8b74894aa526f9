import { Anchor, Button, Code, Group, Stack, Text, Title } from '@mantine/core';
import { ApiError } from '../api.ts';
import { linkTo, Time } from '../format.tsx';
import { hrefOf } from '../place.ts';
import { Region } from '../region.tsx';
import { Details, Panel } from '../panel.tsx';
import { Loaded } from '../loading.tsx';
import { useGet } from '../queries.ts';
import { storeDraft } from './draft.ts';
import { AP_PATH, type ListedAccessPolicy, nextId, useAccessPolicies } from './policies.ts';

/** One version of an access policy. Its rules are shown to who may read them. */
export function AccessPolicyView({ policyId }: { policyId: string }) {
  const all = useAccessPolicies();
  const read = useGet<'AccessPolicyDto'>(`${AP_PATH}/${encodeURIComponent(policyId)}`);
  const listed = all.data?.find(({ policy_id }) => policy_id === policyId);
  const isPrivate = read.error instanceof ApiError && read.error.status !== 404 && listed !== undefined;
  return (
    <Stack>
      <Title order={1}>{policyId}</Title>
      <Group gap="xs">
        <Anchor href={hrefOf('lab')}>All policies</Anchor>
      </Group>
      {isPrivate ? (
        <Shown policy={listed} />
      ) : (
        <Loaded query={read} what="the policy">
          {(policy) => <Shown policy={policy} rules={policy.rules} />}
        </Loaded>
      )}
    </Stack>
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
    <div className="grid sides">
      <Panel title="Rules">
        {rules === undefined ? (
          <Text>The rules are private: their owner and operators may read them.</Text>
        ) : (
          <>
            <Region label="Rules as JSON">
              <Code block>{JSON.stringify(rules, null, 2)}</Code>
            </Region>
            <Group gap="xs">
              <Button onClick={edit}>Draft a new version</Button>
            </Group>
          </>
        )}
      </Panel>
      <Panel title="About">
        <Details
          rows={[
            ['Owner', tris_org === null ? 'the platform’s operators' : linkTo('identity', tris_org)],
            ['Status', status],
            ['Who may read the rules', visibility === 'public' ? 'everybody' : 'its owner and operators'],
            ['Lens', vp === null ? 'the owner’s' : linkTo('lab', vp)],
            ['Tokens last', `${ttl_seconds} s`],
            ['Created', <Time key="created" value={created_at} />],
          ]}
        />
      </Panel>
    </div>
  );
}
