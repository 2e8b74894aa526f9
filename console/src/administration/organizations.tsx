import { Badge, Group, Text } from '@mantine/core';
import { post, type Schemas } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { Field, typed } from '../form.tsx';
import { linkTo, Time } from '../format.tsx';
import { Vetting } from '../organization/organization.tsx';
import { idsIn } from '../lab/fields.tsx';
import { Needs, useMe } from '../lab/needs.tsx';
import { Paged } from '../paged.tsx';
import { Note, Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';

/** The registered organizations. */
export function Organizations() {
  const own = useMe().data?.organization ?? null;
  return (
    <Panel title="Organizations">
      <Note>An organization relays the actions of the platforms that it owns. A vetted one has a public rank.</Note>
      {own !== null && <Text size="sm">The organization of the key: {linkTo('administration', own)}</Text>}
      <Needs scope="ops" what="The list of organizations">
        <Paged<Schemas['ListedOrganizationDto']> path="v1/organizations" field="organizations" what="organizations">
          {(organizations) => (
            <Rows
              caption="List of organizations"
              empty="No organization is registered yet."
              head={['Organization', 'Vetting', 'Registered', 'Actions']}
              rows={organizations.map(({ tris_org, vetted, registered_at }) => [
                linkTo('administration', tris_org),
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
