import { useEffect } from 'react';
import { Boundary } from './boundary.tsx';
import { IdentityView } from './identity/identity-view.tsx';
import { SearchForm, SearchView } from './identity/search.tsx';
import { KeyDialog } from './key-dialog.tsx';
import { LabView } from './lab/lab-view.tsx';
import { LiveView } from './live.tsx';
import { OperationsView } from './operations/operations-view.tsx';
import { hrefOf, usePlace } from './place.ts';
import { ThemePicker } from './theme.tsx';

export function App() {
  const { view, id, parameters } = usePlace();
  const isIdentity = view === 'identity' && id !== '';
  const isLive = view === 'live';
  const isLab = view === 'lab';
  const isOperations = view === 'operations';
  const title = isIdentity
    ? id
    : isLab
      ? id || 'Policy lab'
      : isLive
        ? 'Live'
        : isOperations
          ? 'Operations'
          : 'Identities';
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
      <button type="button" className="skip" onClick={skip}>
        Skip to the content
      </button>
      <header>
        <a className="brand" href={hrefOf('')}>
          Credence
        </a>
        {isIdentity && <SearchForm />}
        <nav>
          <a href={hrefOf('')} aria-current={isIdentity || isLive || isLab || isOperations ? undefined : 'page'}>
            Identities
          </a>
          <a href={hrefOf('lab')} aria-current={isLab ? 'page' : undefined}>
            Policies
          </a>
          <a href={hrefOf('live')} aria-current={isLive ? 'page' : undefined}>
            Live
          </a>
          <a href={hrefOf('operations')} aria-current={isOperations ? 'page' : undefined}>
            Operations
          </a>
          <a href="docs">API</a>
        </nav>
        <div className="settings">
          <ThemePicker />
          <KeyDialog />
        </div>
      </header>
      <main tabIndex={-1}>
        <Boundary at={window.location.hash}>
          {isIdentity ? (
            <IdentityView key={id} trisId={id} parameters={parameters} />
          ) : isLab ? (
            <LabView id={id} />
          ) : isLive ? (
            <LiveView />
          ) : isOperations ? (
            <OperationsView />
          ) : (
            <SearchView />
          )}
        </Boundary>
      </main>
    </>
  );
}
