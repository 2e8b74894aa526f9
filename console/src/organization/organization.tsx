import { Badge, Group, Stack, Text } from '@mantine/core';
import { post } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { Field, typed } from '../form.tsx';
import { count, linkTo, Time } from '../format.tsx';
import { Needs, useMay, useMe } from '../lab/needs.tsx';
import { useAccessPolicies, usePolicies } from '../lab/policies.ts';
import { Loaded } from '../loading.tsx';
import { Details, Note, Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';
import { useGet } from '../queries.ts';
import { Keys } from './keys.tsx';
import { Webhooks } from './webhooks.tsx';

const useRank = (trisId: string) =>
  useGet<'DiscRankDto'>(`api/disc-rank/${encodeURIComponent(trisId)}`, {}, { retry: false });
const useOrganization = (trisId: string) =>
  useGet<'OrganizationDto'>(
    `v1/organizations/${encodeURIComponent(trisId)}`,
    {},
    { enabled: useMay('ops'), retry: false },
  );

/** Policies of either kind that an organization owns. */
function useOwned(trisId: string) {
  const isOwn = ({ tris_org }: { tris_org: string | null }) => tris_org === trisId;
  return { lenses: usePolicies().data?.filter(isOwn) ?? [], access: useAccessPolicies().data?.filter(isOwn) ?? [] };
}

/** Whether an identity is an organization, as far as the key may know: its own, vetted ones, and owners of policies. */
export function useIsOrganization(trisId: string): boolean {
  const rank = useRank(trisId);
  const organization = useOrganization(trisId);
  const { lenses, access } = useOwned(trisId);
  const isOwn = useMe().data?.organization === trisId;
  return isOwn || rank.isSuccess || organization.isSuccess || lenses.length + access.length > 0;
}

/** What is known of an organization besides its score. */
export function Organization({ trisId }: { trisId: string }) {
  const rank = useRank(trisId);
  const organization = useOrganization(trisId);
  const { lenses, access } = useOwned(trisId);
  const mayOperate = useMay('ops');
  const isOwn = useMe().data?.organization === trisId;
  const vetted = organization.data?.vetted ?? (rank.isSuccess ? true : undefined);
  return (
    <>
      <div className="grid sides">
        <Panel title="Policies">
          <Rows
            caption="Policies of it"
            empty="It owns no policy."
            head={['Policy', 'Kind', 'Status']}
            rows={[
              ...lenses.map(({ policy_id, status, active_for }) => [
                linkTo('lab', policy_id),
                'validation policy',
                <Badge key="status">{active_for.length > 0 ? 'active lens' : status}</Badge>,
              ]),
              ...access.map(({ policy_id, status }) => [
                linkTo('lab', policy_id),
                'access policy',
                <Badge key="status">{status}</Badge>,
              ]),
            ]}
          />
        </Panel>
        <Stack>
          <Panel title="Rank and vetting">
            <Details
              rows={[
                [
                  'Rank',
                  rank.data ? (
                    <>
                      <strong>{rank.data.disc_rank}</strong>, by {count(rank.data.tct_total)} TCT in total
                    </>
                  ) : (
                    'none: only vetted organizations have one'
                  ),
                ],
                ['Vetting', vetted === undefined ? 'not known to this key' : vetted ? 'vetted' : 'not vetted'],
                organization.data !== undefined && [
                  'Registered',
                  <Time key="at" value={organization.data.registered_at} />,
                ],
              ]}
            />
            {organization.data && (
              <Group>
                <Vetting trisOrg={trisId} vetted={organization.data.vetted} />
              </Group>
            )}
            <Needs scope="ops" what="Vetting an organization" />
          </Panel>
          <Panel title="Platforms">
            <Needs scope="ops" what="The list">
              <Loaded query={organization} what="the platforms">
                {({ platform_ids }) => (
                  <>
                    <Rows
                      caption="Platforms of it"
                      empty="It owns none."
                      head={['Platform']}
                      rows={platform_ids.map((id) => [id])}
                    />
                    <Group>
                      <Confirmed
                        label="Register a platform"
                        title={`Register a platform of ${trisId}`}
                        verb="Register"
                        act={(form) =>
                          post('v1/platforms', { platform_id: typed(form, 'platform_id'), tris_org: trisId })
                        }
                      >
                        <Text size="sm">A platform belongs to one organization for ever.</Text>
                        <Field label="Id of the platform" name="platform_id" required data-autofocus />
                      </Confirmed>
                    </Group>
                  </>
                )}
              </Loaded>
            </Needs>
          </Panel>
        </Stack>
      </div>
      {mayOperate || isOwn ? (
        <>
          <Webhooks of={trisId} />
          <Keys of={trisId} />
        </>
      ) : (
        <Note>Its webhooks and its keys are for its own keys, and for operators.</Note>
      )}
    </>
  );
}

/** Changes whether an organization is vetted. */
export function Vetting({ trisOrg, vetted }: { trisOrg: string; vetted: boolean }) {
  return vetted ? (
    <Confirmed
      label="Revoke the vetting"
      describes={`of ${trisOrg}`}
      title={`Revoke the vetting of ${trisOrg}`}
      verb="Revoke"
      act={() => post(`v1/organizations/${encodeURIComponent(trisOrg)}/revoke`)}
    >
      <Text size="sm">
        From now on it has no public rank, and operators no longer stand behind the actions that it relays. Earlier ones
        stay as they are.
      </Text>
    </Confirmed>
  ) : (
    <Confirmed
      label="Vet"
      describes={trisOrg}
      title={`Vet ${trisOrg}`}
      verb="Vet"
      act={() => post(`v1/organizations/${encodeURIComponent(trisOrg)}/vet`)}
    >
      <Text size="sm">
        From now on it has a public rank, by the TCT of its own identity, and operators stand behind the actions that it
        relays.
      </Text>
    </Confirmed>
  );
}
