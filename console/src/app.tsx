import { Anchor, Box, Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';
import { Boundary } from './boundary.tsx';
import { SearchForm } from './identity/search.tsx';
import { KeyDialog } from './key-dialog.tsx';
import { Loaded } from './loading.tsx';
import { OverviewView } from './overview.tsx';
import { hrefOf, placeOf } from './place.ts';
import { ThemePicker } from './theme.tsx';
import { type ViewName, VIEWS, viewOf } from './views.ts';

/** Those of the navigation. */
const TITLES = [
  ['', 'Overview'],
  ['me', 'My page'],
  ['lab', 'Policies'],
  ['live', 'Live'],
  ['operations', 'Operations'],
  ['administration', 'Admin'],
] as const;

/** What `#/lab/<id>` shows that is no policy. */
const DRAFTS = new Map([
  ['draft', 'Draft of a validation policy'],
  ['access', 'Draft of an access policy'],
]);

function subscribe(changed: () => void): () => void {
  window.addEventListener('hashchange', changed);
  return () => window.removeEventListener('hashchange', changed);
}

export function App() {
  const place = placeOf(useSyncExternalStore(subscribe, () => window.location.hash));
  const { id, parameters } = place;
  const view = viewOf(place) ?? '';
  const name = TITLES.find(([one]) => one === view)?.[1] ?? id;
  const inLab = id === '' ? 'Policy lab' : (DRAFTS.get(id) ?? id);
  const title = view === 'lab' ? inLab : view !== '' && id !== '' ? id : name;
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
          {TITLES.map(([name, text]) => (
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
          {view === '' ? <OverviewView /> : <LoadedView key={`${view} ${id}`} {...{ view, id, parameters }} />}
        </Boundary>
      </Box>
    </>
  );
}

function LoadedView({ view, ...shown }: { view: ViewName; id: string; parameters: URLSearchParams }) {
  const script = useQuery({ queryKey: ['view', view], queryFn: VIEWS[view], staleTime: Infinity });
  return (
    <Loaded query={script} what="the page">
      {(View) => <View {...shown} />}
    </Loaded>
  );
}
