import { formatBytes, formatTable } from '../../src/core/format';
import { median, medianRatio } from './compare';
import { SYNC_MODELS } from './tools';

/** Resources that one run of a program used. */
export interface Sample {
  seconds: number;
  /** User and system time of all threads. */
  cpuSeconds: number;
  /** Largest resident set of the process or of one of its child processes. */
  peakBytes: number;
}

/** The measured samples of a scenario. */
export interface Measurement {
  name: string;
  title: string;
  /** One sample for each round, by tool; our tool is the first one. */
  samples: Map<string, Sample[]>;
  /** Other figures that goals use. */
  figures?: Record<string, number>;
}

/** A goal: `value` must be at most `limit`. */
export interface Goal {
  what: string;
  limit: number;
  value: (measurement: Measurement) => number;
}

export interface EvaluatedGoal {
  what: string;
  limit: number;
  value: number;
  met: boolean;
}

/** Evaluates the goals. NaN, a value that could not be computed, does not meet a goal. */
export function evaluate(goals: readonly Goal[], measurement: Measurement): EvaluatedGoal[] {
  return goals.map(({ what, limit, value }) => {
    const reached = value(measurement);
    return { what, limit, value: reached, met: reached <= limit };
  });
}

function getMedian(measurement: Measurement, tool: string, what: 'seconds' | 'cpuSeconds'): number {
  return median(getValues(measurement, tool, what));
}

/** The largest peak of all rounds. */
export function getPeak(measurement: Measurement, tool: string): number {
  return Math.max(...getValues(measurement, tool, 'peakBytes'));
}

/** The tool with the smallest median time among those whose name matches. */
export function getBest(measurement: Measurement, names: RegExp): string {
  const matching = [...measurement.samples.keys()].filter((name) => names.test(name));
  const byTime = matching.sort((a, b) => getMedian(measurement, a, 'seconds') - getMedian(measurement, b, 'seconds'));
  return byTime[0] ?? '';
}

/** Median ratio of our values to those of another tool in the same round. */
export function ratioTo(measurement: Measurement, what: keyof Sample, tool: string): number {
  return medianRatio(getValues(measurement, getOurs(measurement), what), getValues(measurement, tool, what));
}

const getOurs = ({ samples }: Measurement): string => [...samples.keys()][0] ?? '';

function getValues(measurement: Measurement, tool: string, what: keyof Sample): number[] {
  return (measurement.samples.get(tool) ?? []).map((sample) => sample[what]);
}

/** A measurement with its evaluated goals. */
export interface EvaluatedMeasurement extends Measurement {
  goals: EvaluatedGoal[];
}

/** The measurement as tables for the terminal. */
export function measurementText(measurement: EvaluatedMeasurement): string {
  const tables = [toolTable(measurement), ...(measurement.goals.length === 0 ? [] : [goalTable(measurement)])];
  return [measurement.title, ...tables].join('\n\n');
}

function toolTable(measurement: EvaluatedMeasurement): string {
  const ours = getOurs(measurement);
  const headings = ['program', 'time', 'processor time', 'peak memory', `${ours} takes`];
  const rows = [...measurement.samples.keys()].map((name) => [
    name,
    formatSeconds(getMedian(measurement, name, 'seconds')),
    formatSeconds(getMedian(measurement, name, 'cpuSeconds')),
    formatBytes(getPeak(measurement, name)),
    name === ours ? '' : `${ratioTo(measurement, 'seconds', name).toFixed(2)} x`,
  ]);
  return formatTable(headings, rows);
}

function goalTable({ goals }: EvaluatedMeasurement): string {
  return formatTable(
    ['goal', 'at most', 'reached', ''],
    goals.map(({ what, limit, value, met }) => [
      what,
      formatNumber(limit),
      formatNumber(value),
      met ? 'met' : 'NOT MET',
    ]),
  );
}

/** Seconds with three digits. */
function formatSeconds(seconds: number): string {
  return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
}

function formatNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

/** The measurement in the format of the results file: the values of each round, by tool. */
export function measurementJson({ samples, ...rest }: EvaluatedMeasurement): object {
  const columns = [...samples].map(([name, own]) => [
    name,
    {
      seconds: own.map(({ seconds }) => rounded(seconds, 4)),
      cpuSeconds: own.map(({ cpuSeconds }) => rounded(cpuSeconds, 4)),
      peakBytes: own.map(({ peakBytes }) => peakBytes),
    },
  ]);
  return { ...rest, tools: Object.fromEntries(columns) as object };
}

const rounded = (value: number, digits: number): number => Number(value.toFixed(digits));

const WIDTH = 760;
/** Start of the bars; the names of the tools are to the left. */
const BARS = 240;
/** Length of the longest bar; its value is to the right. */
const LONGEST = WIDTH - BARS - 80;
const LINE = 22;
const BAR = 15;
const TITLE = 34;
const MARGIN = 20;
const COLOURS = { background: '#ffffff', text: '#24292f', syncModels: '#2f6fdb', other: '#a8b1bb' };

/** Draws median times as horizontal bars, one group for each scenario and each group to its own scale. */
export function syncChart(measurements: readonly Measurement[], machine: string): string {
  const parts: string[] = [];
  let y = MARGIN;
  for (const measurement of measurements) {
    parts.push(text(MARGIN, y + 14, measurement.title, 'font-weight="bold"'));
    y += TITLE - 8;
    const names = [...measurement.samples.keys()];
    const scale = LONGEST / Math.max(...names.map((name) => getMedian(measurement, name, 'seconds')));
    for (const name of names) {
      parts.push(bar(y, name, getMedian(measurement, name, 'seconds'), scale));
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
  const isSyncModels = name.startsWith(SYNC_MODELS);
  const width = Math.max(1, seconds * scale).toFixed(1);
  const weight = isSyncModels ? 'font-weight="bold"' : '';
  return [
    text(BARS - 8, y + 12, name, `text-anchor="end" ${weight}`),
    `<rect x="${BARS}" y="${y}" width="${width}" height="${BAR}" rx="2" fill="${isSyncModels ? COLOURS.syncModels : COLOURS.other}"/>`,
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
