import type { Table } from '../charts/spec';

export function DataTable({ table, caption }: { table: Table; caption: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {table.columns.map((column) => (
              <th scope="col" class={column.isNumber ? 'number' : ''} key={column.label}>
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, column) =>
                column === 0 ? (
                  <th scope="row" key={column}>
                    {cell.text}
                  </th>
                ) : (
                  <td key={column} class={table.columns[column]?.isNumber ? 'number' : ''}>
                    {cell.text}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
