import { Table, Title } from '@mantine/core';
import { isValidElement, type ReactNode } from 'react';
import { count } from './format.tsx';
import { Empty } from './loading.tsx';
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

/**
 * A table of which the first column names the row; on a phone each row is a card. More than a few rows are shown on
 * request. A column with numbers is aligned as such.
 */
export function Rows(props: {
  caption: string;
  /** Whether the caption is not only for screen readers: no title above says the same. */
  isShown?: boolean;
  empty: string;
  head: readonly string[];
  rows: readonly (readonly ReactNode[])[];
  /** How many are shown at once. */
  most?: number;
}) {
  const { caption, isShown = false, empty, head, rows, most = 25 } = props;
  const numbers = head.filter((_, i) => rows.some((cells) => isNumber(cells[i])));
  const body = (some: typeof rows) => (
    <DataTable label={caption} className="cards" columns={head} numbers={numbers}>
      {some.map(([name, ...cells]) => (
        <Table.Tr key={keyOf(name)}>
          <Table.Th scope="row">{name}</Table.Th>
          {cells.map((cell, i) => (
            <Table.Td
              key={head[i + 1]}
              {...(head[i + 1] !== 'Actions' && { 'data-label': head[i + 1] })}
              {...(numbers.includes(head[i + 1]!) && { ta: 'right' })}
              {...(isNumber(cell) && String(cell).startsWith('−') && { c: 'var(--mantine-color-error)' })}
            >
              {cell}
            </Table.Td>
          ))}
        </Table.Tr>
      ))}
    </DataTable>
  );
  return (
    <>
      {isShown && <Title order={3}>{caption}</Title>}
      {rows.length === 0 ? <Empty>{empty}</Empty> : body(rows.slice(0, most))}
      {rows.length > most && (
        <details>
          <summary>{count(rows.length - most)} more</summary>
          {body(rows.slice(most))}
        </details>
      )}
    </>
  );
}

/** An element in the first column has a key; a text is one. */
const keyOf = (name: ReactNode): string => (isValidElement(name) ? String(name.key) : String(name));

const isNumber = (cell: ReactNode): boolean => typeof cell === 'string' && /^[−+]?\d\P{L}*$/u.test(cell);
