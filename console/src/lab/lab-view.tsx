import { Anchor, Badge, Button, Group, Stack, Text, Title } from '@mantine/core';
import { linkTo, Time } from '../format.tsx';
import { hrefOf } from '../place.ts';
import { Term } from '../term.tsx';
import { Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';
import { Loaded } from '../loading.tsx';
import { AccessPolicyView } from './access-policy-view.tsx';
import { AccessView } from './access-view.tsx';
import { DraftView } from './draft-view.tsx';
import { type ListedPolicy, nameAndNumber, useAccessPolicies, usePolicies } from './policies.ts';
import { PolicyView } from './policy-view.tsx';
import { ReplayView } from './replay-view.tsx';

/** The policy lab: `#/lab`, and in it a policy, a replay or a draft. */
export function LabView({ id }: { id: string }) {
  if (id === 'draft') return <DraftView />;
  if (id === 'access') return <AccessView />;
  if (id.startsWith('rpl_')) return <ReplayView replayId={id} />;
  if (id.startsWith('AP_')) return <AccessPolicyView policyId={id} />;
  if (id !== '') return <PolicyView policyId={id} />;
  return (
    <Stack>
      <Title order={1}>Policy lab</Title>
      <Group gap="xs">
        <Button component="a" href={hrefOf('lab', 'draft')}>
          Draft of a validation policy
        </Button>
        <Button component="a" href={hrefOf('lab', 'access')}>
          Draft of an access policy
        </Button>
      </Group>
      <ValidationPolicies />
      <AccessPolicies />
    </Stack>
  );
}

function ValidationPolicies() {
  const query = usePolicies();
  const platforms = query.data?.find(({ active_for }) => active_for.includes('platform'));
  return (
    <Panel title={<Term name="VP">Validation policies</Term>}>
      <Loaded query={query} what="the validation policies">
        {(policies) => (
          <>
            <Text>
              The platform’s <Term name="Lens">lens</Term> is{' '}
              {platforms ? linkTo('lab', platforms.policy_id) : <strong>the model’s own</strong>}.
            </Text>
            <Rows
              caption="List of validation policies"
              empty="There is no validation policy yet."
              head={['Name', 'Owner', 'Versions', 'Active for', 'Latest from']}
              rows={byName(policies).map(({ name, versions }) => {
                const latest = versions.at(-1)!;
                return [
                  <Anchor key={name} href={hrefOf('lab', latest.policy_id)}>
                    {name}
                  </Anchor>,
                  latest.tris_org,
                  <Group key="versions" gap={2}>
                    {versions.map(({ policy_id, status }) => (
                      <span key={policy_id}>
                        <Button
                          component="a"
                          variant="subtle"
                          size="compact-sm"
                          href={hrefOf('lab', policy_id)}
                          aria-label={policy_id}
                        >
                          V{nameAndNumber(policy_id)[1]}
                        </Button>
                        {status === 'retired' && ' (retired)'}
                      </span>
                    ))}
                  </Group>,
                  versions.flatMap(({ policy_id, active_for, tris_org }) =>
                    active_for.map((scope) => (
                      <Badge key={`${policy_id} ${scope}`} color="green" mr={4}>
                        V{nameAndNumber(policy_id)[1]}: {scope === 'platform' ? 'the platform' : tris_org}
                      </Badge>
                    )),
                  ),
                  <Time key="from" value={latest.created_at} />,
                ];
              })}
            />
          </>
        )}
      </Loaded>
    </Panel>
  );
}

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

function AccessPolicies() {
  const query = useAccessPolicies();
  return (
    <Panel title={<Term name="AP">Access policies</Term>}>
      <Loaded query={query} what="the access policies">
        {(policies) => (
          <Rows
            caption="List of access policies"
            empty="There is no access policy yet."
            head={['Policy', 'Status', 'Owner', 'Lens', 'Visibility', 'Created']}
            rows={policies.map(({ policy_id, status, tris_org, vp, visibility, created_at }) => [
              linkTo('lab', policy_id),
              <Badge key="status" color={status === 'active' ? 'green' : 'gray'}>
                {status}
              </Badge>,
              tris_org ?? 'the platform’s operators',
              vp === null ? 'the owner’s' : linkTo('lab', vp),
              visibility,
              <Time key="created" value={created_at} />,
            ])}
          />
        )}
      </Loaded>
    </Panel>
  );
}
