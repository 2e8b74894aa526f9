import { type ReactNode, useId, useState } from 'react';
import { GLOSSARY, type TermName } from './glossary.ts';

/** A word that says what it means while the pointer is on it or the focus in it. Escape ends that. */
export function Term({ name, children = name }: { name: TermName; children?: ReactNode }) {
  const id = useId();
  const [isShown, setShown] = useState(false);
  const show = () => setShown(true);
  const hide = () => setShown(false);
  return (
    <span className="term" onMouseEnter={show} onMouseLeave={hide}>
      <abbr
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
        aria-describedby={isShown ? id : undefined}
        onFocus={show}
        onBlur={hide}
        onKeyDown={({ key }) => key === 'Escape' && hide()}
      >
        {children}
      </abbr>
      {isShown && (
        <span role="tooltip" id={id}>
          {GLOSSARY[name]}
        </span>
      )}
    </span>
  );
}
