import { type FormEvent, useId } from 'react';
import { hrefOf } from '../place.ts';
import { Term } from '../term.tsx';

const WALLET = /^0x[0-9a-f]{40}$/i;

/** A wallet is looked up as the identity that it founded. */
export function trisIdOf(text: string): string {
  const trimmed = text.trim();
  return WALLET.test(trimmed) ? `tris:${trimmed.toLowerCase()}` : trimmed;
}

export function SearchForm({ isLarge = false }: { isLarge?: boolean }) {
  const id = useId();
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get('id'));
    if (text.trim() === '') return;
    window.location.hash = hrefOf('identity', trisIdOf(text));
    event.currentTarget.reset();
  };
  return (
    <form role="search" className={isLarge ? 'search large' : 'search'} onSubmit={submit}>
      <label htmlFor={id} className={isLarge ? '' : 'hidden'}>
        TRIS id or wallet address
      </label>
      <input id={id} name="id" type="search" required spellCheck={false} placeholder="tris:… or 0x…" maxLength={128} />
      <button type="submit" className="primary">
        Show
      </button>
    </form>
  );
}

export function SearchView() {
  return (
    <section className="start">
      <h1>Identities</h1>
      <SearchForm isLarge />
      <p>
        Shows an identity’s <Term name="DISC score">score</Term>, every event behind it, and the score as of any time
        and under any policy. A wallet address shows the identity that the wallet founded. An identity is named by its{' '}
        <Term name="TRIS">TRIS id</Term>.
      </p>
      <p>
        To find one, <a href={hrefOf('live')}>Live</a> lists the identities whose scores changed last.
      </p>
    </section>
  );
}
