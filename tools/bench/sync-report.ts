import { formatBytes, formatTable } from '../../src/core/format';
import { median, medianRatio } from './compare';

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
