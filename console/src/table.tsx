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

const SHOWN_ROWS = 25;

/**
 * A table of which the first column names the row; on a phone each row is a card. More than a few rows are shown on
 * request.
 */
export function Rows(props: {
  caption: string;
  /** Whether the caption is only for screen readers: a title above says the same. */
  isTitled?: boolean;
  empty: string;
  head: readonly string[];
  rows: readonly (readonly ReactNode[])[];
}) {
  const { caption, isTitled = false, empty, head, rows } = props;
  const body = (some: typeof rows) => (
    <DataTable label={caption} className="cards" columns={head} numbers={head.filter((_, i) => isNumber(rows[0]![i]))}>
      {some.map(([name, ...cells]) => (
        <Table.Tr key={keyOf(name)}>
          <Table.Th scope="row">{name}</Table.Th>
          {cells.map((cell, i) => (
            <Table.Td
              key={head[i + 1]}
              {...(head[i + 1] !== 'Actions' && { 'data-label': head[i + 1] })}
              {...(isNumber(cell) && { ta: 'right' })}
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
      {!isTitled && <Title order={3}>{caption}</Title>}
      {rows.length === 0 ? <Empty>{empty}</Empty> : body(rows.slice(0, SHOWN_ROWS))}
      {rows.length > SHOWN_ROWS && (
        <details>
          <summary>{count(rows.length - SHOWN_ROWS)} more</summary>
          {body(rows.slice(SHOWN_ROWS))}
        </details>
      )}
    </>
  );
}

/** An element in the first column has a key; a text is one. */
const keyOf = (name: ReactNode): string => (isValidElement(name) ? String(name.key) : String(name));

const isNumber = (cell: ReactNode): boolean => typeof cell === 'string' && /^[−+]?\d/.test(cell);
