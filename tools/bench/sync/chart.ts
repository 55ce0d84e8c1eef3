import { OURS } from './contestants';
import { medianOf, type RowResult } from './goals';
import { formatSeconds } from './report';

const WIDTH = 760;
/** Start of the bars; the names of the tools are to the left. */
const BARS = 240;
/** Length of the longest bar; its value is to the right. */
const LONGEST = WIDTH - BARS - 80;
const LINE = 22;
const BAR = 15;
const TITLE = 34;
const MARGIN = 20;
const COLOURS = { background: '#ffffff', text: '#24292f', ours: '#2f6fdb', peer: '#a8b1bb' };

/** Draws median times as horizontal bars, one group for each row and each group to its own scale. */
export function syncChart(rows: readonly RowResult[], machine: string): string {
  const parts: string[] = [];
  let y = MARGIN;
  for (const row of rows) {
    parts.push(text(MARGIN, y + 14, row.title, 'font-weight="bold"'));
    y += TITLE - 8;
    const names = [...row.samples.keys()];
    const scale = LONGEST / Math.max(...names.map((name) => medianOf(row, name, 'seconds')));
    for (const name of names) {
      parts.push(bar(y, name, medianOf(row, name, 'seconds'), scale));
      y += LINE;
    }
    y += TITLE - LINE;
  }
  parts.push(text(MARGIN, y + 6, `Seconds, medians; shorter is better. ${machine}`, 'font-size="11"'));
  const height = y + MARGIN;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="13" fill="${COLOURS.text}">`,
    `<rect width="100%" height="100%" fill="${COLOURS.background}"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

function bar(y: number, name: string, seconds: number, scale: number): string {
  const isOurs = name.startsWith(OURS);
  const width = Math.max(1, seconds * scale).toFixed(1);
  const weight = isOurs ? 'font-weight="bold"' : '';
  return [
    text(BARS - 8, y + 12, name, `text-anchor="end" ${weight}`),
    `<rect x="${BARS}" y="${y}" width="${width}" height="${BAR}" rx="2" fill="${isOurs ? COLOURS.ours : COLOURS.peer}"/>`,
    text(BARS + Number(width) + 6, y + 12, formatSeconds(seconds), weight),
  ].join('\n');
}

function text(x: number, y: number, content: string, attributes: string): string {
  return `<text x="${x}" y="${y}" ${attributes.trim()}>${escape(content)}</text>`;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escape(content: string): string {
  return content.replaceAll(/[&<>"]/g, (character) => ENTITIES[character] ?? character);
}
