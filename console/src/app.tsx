import { useEffect } from 'react';
import { Boundary } from './boundary.tsx';
import { IdentityView } from './identity/identity-view.tsx';
import { SearchForm } from './identity/search.tsx';
import { KeyDialog } from './key-dialog.tsx';
import { LabView } from './lab/lab-view.tsx';
import { LiveView } from './live.tsx';
import { OperationsView } from './operations/operations-view.tsx';
import { OverviewView } from './overview.tsx';
import { hrefOf, usePlace } from './place.ts';
import { ThemePicker } from './theme.tsx';

const VIEWS: readonly [view: string, title: string][] = [
  ['', 'Overview'],
  ['lab', 'Policies'],
  ['live', 'Live'],
  ['operations', 'Operations'],
];

export function App() {
  const place = usePlace();
  const { id, parameters } = place;
  const isIdentity = place.view === 'identity' && id !== '';
  const view = isIdentity || VIEWS.some(([name]) => name === place.view) ? place.view : '';
  const isLab = view === 'lab';
  const title =
    isIdentity || (isLab && id !== '') ? id : isLab ? 'Policy lab' : VIEWS.find(([name]) => name === view)![1];
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
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <path d="M4 14a8 8 0 0 1 16 0" />
            <path d="m12 14 4-5" />
          </svg>
          Credence
        </a>
        <nav aria-label="Pages">
          {VIEWS.map(([name, text]) => (
            <a key={name} href={hrefOf(name)} aria-current={name === view ? 'page' : undefined}>
              {text}
            </a>
          ))}
          <a href="docs">API</a>
        </nav>
        <SearchForm />
        <div className="settings">
          <ThemePicker />
          <KeyDialog />
        </div>
      </header>
      <main tabIndex={-1}>
        <Boundary at={window.location.hash}>
          {isIdentity ? (
            <IdentityView key={id} trisId={id} parameters={parameters} />
          ) : view === 'lab' ? (
            <LabView id={id} />
          ) : view === 'live' ? (
            <LiveView />
          ) : view === 'operations' ? (
            <OperationsView />
          ) : (
            <OverviewView />
          )}
        </Boundary>
      </main>
    </>
  );
}
