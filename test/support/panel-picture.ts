import type { RangeSeries } from './prometheus';

/** A panel of a dashboard with the answers to its queries. */
export interface DrawnPanel {
  title: string;
  /** A unit of Grafana. */
  unit: string;
  series: { legend: string; values: RangeSeries['values'] }[];
}

const [WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM] = [360, 130, 48, 12, 16];
const COLORS = ['#3b7d3b', '#c9a100', '#2f6db5', '#c4532b', '#8b4fa8', '#4a9a9a', '#777777', '#b03060', '#5a5a20'];
const GRID = 4;

const UNITS: Readonly<Record<string, (value: number) => string>> = {
  reqps: (value) => `${short(value)}/s`,
  ms: (value) => `${short(value)} ms`,
  percent: (value) => `${short(value)}%`,
  percentunit: (value) => `${short(100 * value)}%`,
};

/** The drawn time, in seconds since 1970. */
interface Range {
  from: number;
  to: number;
}

/** A page with all panels. Grafana is not among the programs that the tests can get. */
export function panelPage(panels: readonly DrawnPanel[], range: Range): string {
  return `<!doctype html><meta charset="utf-8"><style>
body { margin: 8px; width: ${3 * (WIDTH + 24)}px; font: 10px sans-serif; display: grid; grid-template-columns: repeat(3, 1fr); gap: 8px; }
section { border: 1px solid #ddd; padding: 6px; } h2 { font-size: 11px; margin: 0 0 4px; } ul { list-style: none; margin: 0; padding: 0; }
li { display: inline-block; margin-right: 8px; } text { fill: #555; font-size: 9px; } line { stroke: #e4e4e4; } path { fill: none; stroke-width: 1.5; }
</style>${panels.map((panel) => panelText(panel, range)).join('\n')}`;
}

function panelText({ title, unit, ...panel }: DrawnPanel, { from, to }: Range): string {
  // Triton's quantiles are not a number while there are no requests.
  const series = panel.series.map(({ legend, values }) => ({
    legend,
    values: values.filter(([, value]) => value !== 'NaN'),
  }));
  const step = niceStep(Math.max(...series.flatMap(({ values }) => values.map(([, value]) => Number(value)))) / GRID);
  const x = (at: number): number => LEFT + ((at - from) / (to - from)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number): number => 8 + (1 - value / (GRID * step)) * (HEIGHT - BOTTOM - 8);
  const label = UNITS[unit] ?? short;
  const values = Array.from({ length: GRID + 1 }, (_, index) => index * step).map(
    (value) => `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}"/>
<text x="${LEFT - 4}" y="${y(value) + 3}" text-anchor="end">${label(value)}</text>`,
  );
  const minutes = Math.ceil((to - from) / 60 / 6);
  const times = Array.from({ length: Math.floor((to - from) / 60 / minutes) + 1 }, (_, index) => index * minutes).map(
    (minute) => `<text x="${x(from + 60 * minute)}" y="${HEIGHT - 3}" text-anchor="middle">${minute} min</text>`,
  );
  const lines = series.map((one, index) => `<path stroke="${color(index)}" d="${pathText(one.values, x, y)}"/>`);
  const legends = series.map(({ legend }, index) => `<li style="color: ${color(index)}">${escaped(legend)}</li>`);
  return `<section><h2>${escaped(title)}</h2><svg width="${WIDTH}" height="${HEIGHT}">${[...values, ...times, ...lines].join('')}</svg><ul>${legends.join('')}</ul></section>`;
}

/** The least step of an axis that is a round number and not below `value`. */
function niceStep(value: number): number {
  if (!(value > 0)) return 1 / GRID;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 2.5, 5].find((factor) => factor * power >= value * 0.999) ?? 10);
}

/** Without a line where values are missing. */
function pathText(values: RangeSeries['values'], x: (at: number) => number, y: (value: number) => number): string {
  const step = Math.min(...values.slice(1).map(([at], index) => at - (values[index]?.[0] ?? 0)));
  return values
    .map(([at, value], index) => {
      const isNext = index > 0 && at - (values[index - 1]?.[0] ?? 0) <= 1.5 * step;
      return `${isNext ? 'L' : 'M'}${x(at).toFixed(1)} ${y(Number(value)).toFixed(1)}`;
    })
    .join('');
}

const color = (index: number): string => COLORS[index % COLORS.length] ?? '';
const short = (value: number): string => String(Number(value.toPrecision(3)));
const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
