// A table whose cells may be links and badges.
import type { ComponentChildren } from 'preact';

export interface ListColumn {
  label: string;
  isNumber?: boolean;
  /** Long text that may break into lines. */
  isWide?: boolean;
}

export interface ListRow {
  key: string;
  cells: ComponentChildren[];
  tone?: string;
}

/** The first cell of a row names it. `isInner`: the table stands inside a card. */
export function ListTable(props: {
  caption: string;
  columns: readonly ListColumn[];
  rows: readonly ListRow[];
  isInner?: boolean;
}) {
  const { caption, columns, rows, isInner } = props;
  const classOf = ({ isNumber, isWide }: ListColumn) =>
    isNumber ? 'number' : isWide ? 'wide-cell' : '';
  return (
    <div class={isInner ? 'scroll' : 'card scroll'} tabIndex={0} role="region" aria-label={caption}>
      <table class="wide">
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" key={column.label} class={classOf(column)}>
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells, tone }) => (
            <tr key={key} class={tone ?? ''}>
              {columns.map((column, at) =>
                at === 0 ? (
                  <th scope="row" key={column.label} class={classOf(column)}>
                    {cells[at]}
                  </th>
                ) : (
                  <td key={column.label} class={classOf(column)}>
                    {cells[at]}
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
