import { Anchor, Badge, Group, Text } from '@mantine/core';
import { post, type Schemas } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { Field, typed } from '../form.tsx';
import { Time } from '../format.tsx';
import { Vetting } from '../identity/organization.tsx';
import { idsIn } from '../lab/fields.tsx';
import { Needs, useMe } from '../lab/needs.tsx';
import { Paged } from '../paged.tsx';
import { Panel } from '../panel.tsx';
import { hrefOf } from '../place.ts';
import { Rows } from '../table.tsx';

/** The registered organizations. */
export function Organizations() {
  const own = useMe().data?.organization ?? null;
  return (
    <Panel title="Organizations">
      <Text size="sm" c="dimmed">
        An organization relays the actions of the platforms that it owns. A vetted one has a public rank.
      </Text>
      {own !== null && (
        <Text size="sm">
          The organization of the key:{' '}
          <Anchor underline="always" href={hrefOf('administration', own)}>
            {own}
          </Anchor>
        </Text>
      )}
      <Needs scope="ops" what="The list of organizations">
        <Paged<Schemas['ListedOrganizationDto']> path="v1/organizations" field="organizations" what="organizations">
          {(organizations) => (
            <Rows
              caption="List of organizations"
              isTitled
              empty="No organization is registered yet."
              head={['Organization', 'Vetting', 'Registered', 'Actions']}
              rows={organizations.map(({ tris_org, vetted, registered_at }) => [
                <Anchor key={tris_org} href={hrefOf('administration', tris_org)}>
                  {tris_org}
                </Anchor>,
                <Badge key="vetted" miw="max-content" color={vetted ? 'green' : 'gray'}>
                  {vetted ? 'vetted' : 'not vetted'}
                </Badge>,
                <Time key="at" value={registered_at} />,
                <Vetting key="change" trisOrg={tris_org} vetted={vetted} />,
              ])}
            />
          )}
        </Paged>
        <Group>
          <Confirmed
            label="Register an organization"
            title="Register an organization"
            verb="Register"
            act={(form) =>
              post('v1/organizations', {
                tris_org: typed(form, 'tris_org'),
                platform_ids: idsIn(typed(form, 'platform_ids') ?? ''),
              })
            }
          >
            <Field label="TRIS id" name="tris_org" required placeholder="tris:lendco" data-autofocus />
            <Field
              label="Platforms that it owns"
              description="Their ids, with spaces between. A platform belongs to one organization for ever."
              name="platform_ids"
              placeholder="lendco-app lendco-web"
            />
          </Confirmed>
        </Group>
      </Needs>
    </Panel>
  );
}
