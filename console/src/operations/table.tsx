import type { ReactNode } from 'react';
import { Head } from '../head.tsx';
import { Region } from '../region.tsx';

/** A table that scrolls by itself where it is too wide. */
export function Table({ label, columns, children }: { label: string; columns: string[]; children: ReactNode }) {
  return (
    <Region label={label}>
      <table>
        <Head columns={columns} />
        <tbody>{children}</tbody>
      </table>
    </Region>
  );
}
