import { formatDuration } from '../../core/format';
import { html, Html } from './html';

/** A bar on a rail of the whole width; `start` and `length` are parts of it, from 0 to 1. The number stands beside it. */
export function bar(length: number, start = 0): Html {
  const percent = (part: number): string => `${(Math.min(Math.max(part, 0), 1) * 100).toFixed(2)}%`;
  return html`<svg class="bar" width="100%" height="8" aria-hidden="true">
    <rect class="rail" width="100%" height="8" rx="4" />
    <rect class="fill" x="${percent(start)}" width="${percent(length)}" height="8" rx="4" />
  </svg>`;
}

/** A section with its heading. */
export function section(id: string, title: string, body: Html): Html {
  return html`<section aria-labelledby="${id}">
    <h2 id="${id}">${title}</h2>
    ${body}
  </section>`;
}

/** One cell of a table: what stands in it, or that with how many columns it spans. */
export type Cell = Html | { content: Html; columns: number };

/** A row of a table: its first cell is its heading. */
export interface Row {
  /** What it is about, for tests and for links. */
  name: string;
  heading: Html;
  /** Under the second heading of the table and those after it. */
  cells: readonly Cell[];
}

/**
 * A table. On a phone each row is a card whose values stand beside their headings; the roles keep it a table for
 * screen readers then.
 */
export function table(headings: readonly string[], rows: readonly Row[]): Html {
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

function tableRow(headings: readonly string[], { name, heading, cells }: Row): Html {
  const all = cells.map((cell, i) => {
    const { content, columns } = cell instanceof Html ? { content: cell, columns: 1 } : cell;
    return html`<td role="cell" data-heading="${headings[i + 1]}" colspan="${columns}"><div>${content}</div></td>`;
  });
  return html`<tr role="row" data-name="${name}">
    <th role="rowheader" scope="row">${heading}</th>
    ${all}
  </tr> `;
}

/** A time with its bar; a dash where there is none. */
export function duration(milliseconds: number | null, longest: number): Html {
  if (milliseconds === null) return html`-`;
  return html`<span class="time">${formatDuration(milliseconds)}</span>${bar(milliseconds / longest)}`;
}

/** Where the weights of this package's own tracing are drawn at random, its record says so in these words. */
export function isRandom(weights: string): boolean {
  return weights.startsWith('seeded random weights');
}
