import { Anchor, Stack, Text, Title } from '@mantine/core';
import { currentKey } from '../api.ts';
import { KeyInUse } from '../lab/needs.tsx';
import { Warning } from '../loading.tsx';
import { Keys } from '../organization/keys.tsx';
import { Organization } from '../organization/organization.tsx';
import { Webhooks } from '../organization/webhooks.tsx';
import { hrefOf } from '../place.ts';
import { Tabs } from '../tabs.tsx';
import { Identities } from './identities.tsx';
import { Issuers } from './issuers.tsx';
import { Organizations } from './organizations.tsx';
import { Usage } from './usage.tsx';

/** The parts of the page, which `tab` of the address selects. */
const TABS = {
  organizations: ['Organizations', Organizations],
  identities: ['Identities', Identities],
  issuers: ['Issuers', Issuers],
  webhooks: ['Webhooks', Webhooks],
  keys: ['API keys', Keys],
  usage: ['Usage', Usage],
} as const;

const tabHref = (tab: string) => hrefOf('administration', '', new URLSearchParams({ tab }));

/** Who takes part, and what is stated about them, as far as the key permits it: `#/administration`, and an organization. */
export function AdministrationView({ id, parameters }: { id: string; parameters: URLSearchParams }) {
  const asked = parameters.get('tab') ?? '';
  const tab = Object.hasOwn(TABS, asked) ? (asked as keyof typeof TABS) : 'organizations';
  const Part = TABS[tab][1];
  return (
    <Stack>
      <Title order={1}>{id === '' ? 'Administration' : id}</Title>
      {currentKey() === null && (
        <Warning>Enter a key with “API key” at the top of the page: everything here needs one.</Warning>
      )}
      <KeyInUse />
      {id === '' ? (
        <>
          <Tabs tabs={Object.entries(TABS).map(([name, [title]]) => [name, title])} shown={tab} hrefOf={tabHref} />
          <Part parameters={parameters} />
        </>
      ) : (
        <>
          <Text size="sm">
            <Anchor underline="always" href={tabHref('organizations')}>
              All organizations
            </Anchor>
            {' · '}
            <Anchor underline="always" href={hrefOf('identity', id)}>
              Its identity, with its score
            </Anchor>
          </Text>
          <Organization trisId={id} />
        </>
      )}
    </Stack>
  );
}
