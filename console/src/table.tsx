import { Table } from '@mantine/core';
import type { ReactNode } from 'react';
import { Region } from './region.tsx';

/** A table with named columns, which scrolls by itself where it is too wide. */
export function DataTable(props: {
  label: string;
  columns: readonly string[];
  /** Columns that are aligned as numbers. */
  numbers?: readonly string[];
  className?: string;
  children: ReactNode;
}) {
  const { label, columns, numbers = [], className, children } = props;
  return (
    <Region label={label}>
      <Table {...(className && { className })}>
        <Table.Thead>
          <Table.Tr>
            {columns.map((name) =>
              name === '' ? (
                <Table.Td key={name} />
              ) : (
                <Table.Th key={name} scope="col" c="dimmed" fw={500} {...(numbers.includes(name) && { ta: 'right' })}>
                  {name}
                </Table.Th>
              ),
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </Region>
  );
}
