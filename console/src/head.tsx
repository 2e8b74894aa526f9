/** The names of a table's columns. Those in `numbers` are aligned as the numbers below them. */
export function Head({ columns, numbers = [] }: { columns: readonly string[]; numbers?: readonly string[] }) {
  return (
    <thead>
      <tr>
        {columns.map((name) => (
          <th key={name} scope="col" className={numbers.includes(name) ? 'number' : undefined}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}
