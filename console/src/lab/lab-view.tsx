import { Anchor, Badge, Button, Group, Stack, Table, Text, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { get } from '../api.ts';
import { Time } from '../format.tsx';
import { hrefOf } from '../place.ts';
import { Term } from '../term.tsx';
import { Panel } from '../panel.tsx';
import { DataTable } from '../table.tsx';
import { Empty, Failure, Loaded } from '../loading.tsx';
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
  return (
    <Panel title={<Term name="VP">Validation policies</Term>}>
      <Loaded query={query} what="the validation policies">
        {(policies) => (
          <>
            <Text>
              The platform’s <Term name="Lens">lens</Term> is{' '}
              {policies.find(isPlatforms) ? (
                <Anchor href={hrefOf('lab', policies.find(isPlatforms)!.policy_id)}>
                  {policies.find(isPlatforms)!.policy_id}
                </Anchor>
              ) : (
                <strong>the model’s own</strong>
              )}
              .
            </Text>
            {policies.length === 0 ? (
              <Empty>There is no validation policy yet.</Empty>
            ) : (
              <DataTable
                label="List of validation policies"
                columns={['Name', 'Owner', 'Versions', 'Active for', 'Latest from']}
              >
                {byName(policies).map(({ name, versions }) => {
                  const latest = versions.at(-1)!;
                  return (
                    <Table.Tr key={name}>
                      <Table.Th scope="row">
                        <Anchor href={hrefOf('lab', latest.policy_id)}>{name}</Anchor>
                      </Table.Th>
                      <Table.Td>{latest.tris_org}</Table.Td>
                      <Table.Td>
                        <Group gap={2}>
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
                        </Group>
                      </Table.Td>
                      <Table.Td>
                        {versions.flatMap(({ policy_id, active_for, tris_org }) =>
                          active_for.map((scope) => (
                            <Badge key={`${policy_id} ${scope}`} color="green" mr={4}>
                              V{nameAndNumber(policy_id)[1]}: {scope === 'platform' ? 'the platform' : tris_org}
                            </Badge>
                          )),
                        )}
                      </Table.Td>
                      <Table.Td>
                        <Time value={latest.created_at} />
                      </Table.Td>
                    </Table.Tr>
                  );
                })}
              </DataTable>
            )}
          </>
        )}
      </Loaded>
    </Panel>
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
    <Panel title={<Term name="AP">Access policies</Term>}>
      {edit.error && <Failure error={edit.error} />}
      <Loaded query={query} what="the access policies">
        {(policies) =>
          policies.length === 0 ? (
            <Empty>There is no access policy yet.</Empty>
          ) : (
            <DataTable
              label="List of access policies"
              columns={['Policy', 'Status', 'Owner', 'Lens', 'Visibility', 'Created', 'Draft']}
            >
              {policies.map((policy) => (
                <Table.Tr key={policy.policy_id}>
                  <Table.Th scope="row">
                    <Anchor href={hrefOf('lab', policy.policy_id)}>{policy.policy_id}</Anchor>
                  </Table.Th>
                  <Table.Td>
                    <Badge color={policy.status === 'active' ? 'green' : 'gray'}>{policy.status}</Badge>
                  </Table.Td>
                  <Table.Td>{policy.tris_org ?? 'the platform’s operators'}</Table.Td>
                  <Table.Td>
                    {policy.vp === null ? 'the owner’s' : <Anchor href={hrefOf('lab', policy.vp)}>{policy.vp}</Anchor>}
                  </Table.Td>
                  <Table.Td>{policy.visibility}</Table.Td>
                  <Table.Td>
                    <Time value={policy.created_at} />
                  </Table.Td>
                  <Table.Td>
                    {mayRead(policy, me.data) && (
                      <Button
                        aria-label={`Draft a new version of ${policy.policy_id}`}
                        onClick={() => edit.mutate(policy)}
                      >
                        New version
                      </Button>
                    )}
                  </Table.Td>
                </Table.Tr>
              ))}
            </DataTable>
          )
        }
      </Loaded>
    </Panel>
  );
}
