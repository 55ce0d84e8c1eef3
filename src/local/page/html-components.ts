import { formatDuration } from '../../core/format';
import { html, Html } from './html';

/** A bar on a rail of the full width; `length` is a fraction of the rail. The number is beside the bar. */
export function bar(length: number): Html {
  const percent = `${(Math.min(Math.max(length, 0), 1) * 100).toFixed(2)}%`;
  return html`<svg class="bar" width="100%" height="8" aria-hidden="true">
    <rect class="rail" width="100%" height="8" rx="4" />
    <rect class="fill" width="${percent}" height="8" rx="4" />
  </svg>`;
}

/** A section with its heading. */
export function section(id: string, title: string, body: Html): Html {
  return html`<section aria-labelledby="${id}">
    <h2 id="${id}">${title}</h2>
    ${body}
  </section>`;
}

/** A table cell: its content, or its content with the number of columns that it spans. */
export type TableCell = Html | { content: Html; columns: number };

/** A table row, whose first cell is its heading. */
export interface TableRow {
  /** Name of the row's subject, for tests and links. */
  name: string;
  heading: Html;
  /** Cells under the second and later headings of the table. */
  cells: readonly TableCell[];
}

/**
 * A table. On a phone each row is a card, with values beside their headings. The roles keep the table semantics for
 * screen readers.
 */
export function table(headings: readonly string[], rows: readonly TableRow[]): Html {
  return html`<table class="card" role="table">
    <thead role="rowgroup">
      <tr role="row">
        ${headings.map((heading) => html`<th role="columnheader" scope="col">${heading}</th>`)}
      </tr>
    </thead>
    <tbody role="rowgroup">
      ${rows.map((row) => tableRow(headings, row))}
    </tbody>
  </table>`;
}

function tableRow(headings: readonly string[], { name, heading, cells }: TableRow): Html {
  const all = cells.map((cell, i) => {
    const { content, columns } = cell instanceof Html ? { content: cell, columns: 1 } : cell;
    return html`<td role="cell" data-heading="${headings[i + 1]}" colspan="${columns}"><div>${content}</div></td>`;
  });
  return html`<tr role="row" data-name="${name}">
    <th role="rowheader" scope="row">${heading}</th>
    ${all}
  </tr> `;
}

/** A time with its bar; a dash for null. */
export function duration(milliseconds: number | null, longest: number): Html {
  if (milliseconds === null) return html`-`;
  return html`<span class="time">${formatDuration(milliseconds)}</span>${bar(milliseconds / longest)}`;
}

/** Whether weights are random. The trace record of this package's random weights starts with these words. */
export function isRandom(weights: string): boolean {
  return weights.startsWith('seeded random weights');
}
