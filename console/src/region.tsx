import { Box } from '@mantine/core';
import type { ReactNode } from 'react';

/** A part of the page, such as a table, that scrolls by itself where it is too wide; with the keyboard, too. */
export function Region({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Box role="region" tabIndex={0} aria-label={label} maw="100%" style={{ overflowX: 'auto' }}>
      {children}
    </Box>
  );
}
