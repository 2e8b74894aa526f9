import { Anchor, Box, Button, Group } from '@mantine/core';
import { type ComponentType, lazy, Suspense, useEffect } from 'react';
import { Boundary } from './boundary.tsx';
import { SearchForm } from './identity/search.tsx';
import { KeyDialog } from './key-dialog.tsx';
import { Waiting } from './loading.tsx';
import { OverviewView } from './overview.tsx';
import { hrefOf, usePlace } from './place.ts';
import { ThemePicker } from './theme.tsx';

interface Shown {
  id: string;
  parameters: URLSearchParams;
}

// Loaded when they are opened: the start page needs none of them.
const IdentityView = lazy(async () => ({ default: (await import('./identity/identity-view.tsx')).IdentityView }));
const AdministrationView = lazy(async () => ({
  default: (await import('./administration/administration-view.tsx')).AdministrationView,
}));
const LabView = lazy(async () => ({ default: (await import('./lab/lab-view.tsx')).LabView }));
const LiveView = lazy(async () => ({ default: (await import('./live.tsx')).LiveView }));
const MeView = lazy(async () => ({ default: (await import('./me/me-view.tsx')).MeView }));
const OperationsView = lazy(async () => ({
  default: (await import('./operations/operations-view.tsx')).OperationsView,
}));

/** Those of the navigation. */
const VIEWS: readonly [view: string, title: string, View: ComponentType<Shown>][] = [
  ['', 'Overview', OverviewView],
  ['me', 'My page', MeView],
  ['lab', 'Policies', LabView],
  ['live', 'Live', LiveView],
  ['operations', 'Operations', OperationsView],
  ['administration', 'Admin', AdministrationView],
];

export function App() {
  const place = usePlace();
  const { id, parameters } = place;
  const isIdentity = place.view === 'identity' && id !== '';
  const [view, name, View] = isIdentity
    ? (['identity', id, IdentityView] as const)
    : (VIEWS.find(([one]) => one === place.view) ?? VIEWS[0]!);
  const title = view !== '' && id !== '' ? id : view === 'lab' ? 'Policy lab' : name;
  useEffect(() => {
    document.title = `${title} · Credence console`;
  }, [title]);

  const skip = () => {
    const main = document.querySelector('main')!;
    main.focus();
    main.scrollIntoView();
  };
  return (
    <>
      {/* Not a link: the part after # of the address is what is shown. */}
      <Button className="skip" onClick={skip}>
        Skip to the content
      </Button>
      <Group component="header" gap="md" py="xs" bg="var(--mantine-color-body)">
        <Anchor href={hrefOf('')} underline="never" c="inherit" fz="lg" fw={700}>
          <Group gap={6}>
            <svg
              width="26"
              viewBox="0 0 24 24"
              fill="none"
              stroke="var(--mantine-color-anchor)"
              strokeWidth="2.5"
              strokeLinecap="round"
              aria-hidden="true"
            >
              <path d="M4 14a8 8 0 0 1 16 0" />
              <path d="m12 14 4-5" />
            </svg>
            Credence
          </Group>
        </Anchor>
        <Group component="nav" gap={2} aria-label="Pages">
          {VIEWS.map(([name, text]) => (
            <Button
              key={name}
              component="a"
              variant={name === view ? 'light' : 'subtle'}
              color={name === view ? 'indigo' : 'gray'}
              href={hrefOf(name)}
              aria-current={name === view ? 'page' : undefined}
            >
              {text}
            </Button>
          ))}
          <Button component="a" variant="subtle" color="gray" href="docs">
            API
          </Button>
        </Group>
        <SearchForm />
        <Group gap="xs">
          <ThemePicker />
          <KeyDialog />
        </Group>
      </Group>
      <Box component="main" tabIndex={-1} maw="75rem" mx="auto" p="md" pb="lg">
        <Boundary at={window.location.hash}>
          <Suspense fallback={<Waiting what="the page" />}>
            <View key={`${view} ${id}`} id={id} parameters={parameters} />
          </Suspense>
        </Boundary>
      </Box>
    </>
  );
}
