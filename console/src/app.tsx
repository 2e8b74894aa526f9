import { Anchor, Box, Button, Group } from '@mantine/core';
import { lazy, Suspense, useEffect } from 'react';
import { Boundary } from './boundary.tsx';
import { SearchForm } from './identity/search.tsx';
import { KeyDialog } from './key-dialog.tsx';
import { Waiting } from './loading.tsx';
import { OverviewView } from './overview.tsx';
import { hrefOf, usePlace } from './place.ts';
import { ThemePicker } from './theme.tsx';

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

const VIEWS: readonly [view: string, title: string][] = [
  ['', 'Overview'],
  ['me', 'My page'],
  ['lab', 'Policies'],
  ['live', 'Live'],
  ['operations', 'Operations'],
  ['administration', 'Admin'],
];

export function App() {
  const place = usePlace();
  const { id, parameters } = place;
  const isIdentity = place.view === 'identity' && id !== '';
  const view = isIdentity || VIEWS.some(([name]) => name === place.view) ? place.view : '';
  const title =
    view !== '' && id !== '' ? id : view === 'lab' ? 'Policy lab' : VIEWS.find(([name]) => name === view)![1];
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
            {isIdentity ? (
              <IdentityView key={id} trisId={id} parameters={parameters} />
            ) : view === 'lab' ? (
              <LabView id={id} />
            ) : view === 'me' ? (
              <MeView />
            ) : view === 'live' ? (
              <LiveView />
            ) : view === 'operations' ? (
              <OperationsView />
            ) : view === 'administration' ? (
              <AdministrationView key={id} id={id} parameters={parameters} />
            ) : (
              <OverviewView />
            )}
          </Suspense>
        </Boundary>
      </Box>
    </>
  );
}
