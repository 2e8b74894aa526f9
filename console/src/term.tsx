import { Tooltip } from '@mantine/core';
import type { ReactNode } from 'react';
import { GLOSSARY, type TermName } from './glossary.ts';

const EVENTS = { hover: true, focus: true, touch: true };

/** A word that says what it means while the pointer is on it or the focus in it. Escape ends that. */
export function Term({ name, children = name }: { name: TermName; children?: ReactNode }) {
  return (
    <Tooltip label={GLOSSARY[name]} events={EVENTS} multiline maw="min(20rem, 80vw)" withinPortal={false}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <abbr tabIndex={0}>{children}</abbr>
    </Tooltip>
  );
}
