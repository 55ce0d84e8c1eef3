import { median } from '../compare';
import { OURS } from './contestants';
import type { Sample } from './measure';
import type { RequestCounts } from './requests';
import { medianRatio } from '../rounds';

/** Measurements of one kind of work. */
export interface RowResult {
  name: string;
  title: string;
  /** One sample for each round, by tool; ours is named sync-models. */
  samples: Map<string, Sample[]>;
  /** Requests of one run, by tool. */
  requests?: Record<string, RequestCounts>;
  /** Whether the bucket contained the change after every run, by tool. */
  noticed?: Record<string, boolean>;
  /** Other figures that goals use. */
  figures?: Record<string, number>;
}

/** A goal: `value` must be at most `limit`. */
export interface Goal {
  what: string;
  limit: number;
  value: (row: RowResult) => number;
}

export interface JudgedGoal {
  what: string;
  limit: number;
  value: number;
  met: boolean;
}

/** Evaluates the goals. NaN, a value that could not be computed, does not meet a goal. */
export function judge(goals: readonly Goal[], row: RowResult): JudgedGoal[] {
  return goals.map(({ what, limit, value }) => {
    const reached = value(row);
    return { what, limit, value: reached, met: reached <= limit };
  });
}

export function medianOf(row: RowResult, contestant: string, what: 'seconds' | 'cpuSeconds'): number {
  return median(valuesOf(row, contestant, what));
}

/** The largest peak of all rounds. */
export function peakOf(row: RowResult, contestant: string): number {
  return Math.max(...valuesOf(row, contestant, 'peakBytes'));
}

/** The tool with the smallest median time among those whose name matches. */
export function bestOf(row: RowResult, names: RegExp): string {
  const matching = [...row.samples.keys()].filter((name) => names.test(name));
  const byTime = matching.sort((a, b) => medianOf(row, a, 'seconds') - medianOf(row, b, 'seconds'));
  return byTime[0] ?? '';
}

/** Median ratio of our values to those of another tool in the same round. */
export function ratioTo(row: RowResult, what: keyof Sample, contestant: string): number {
  return medianRatio(valuesOf(row, OURS, what), valuesOf(row, contestant, what));
}

function valuesOf(row: RowResult, contestant: string, what: keyof Sample): number[] {
  return (row.samples.get(contestant) ?? []).map((sample) => sample[what]);
}
