import { median } from '../compare';
import { OURS } from './contestants';
import type { Sample } from './measure';
import type { RequestCounts } from './requests';
import { medianRatio } from '../rounds';

/** What was measured of one kind of work. */
export interface RowResult {
  name: string;
  title: string;
  /** By contestant, one for each round; ours is called sync-models. */
  samples: Map<string, Sample[]>;
  /** By contestant, of one run. */
  requests?: Record<string, RequestCounts>;
  /** By contestant: whether what had changed was in the bucket after every run. */
  noticed?: Record<string, boolean>;
  /** Other numbers that goals are about. */
  figures?: Record<string, number>;
}

/** A number to reach: `value` is to be at most `limit`. */
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

/** A value that could not be computed (NaN) is not met. */
export function judge(goals: readonly Goal[], row: RowResult): JudgedGoal[] {
  return goals.map(({ what, limit, value }) => {
    const reached = value(row);
    return { what, limit, value: reached, met: reached <= limit };
  });
}

export function medianOf(row: RowResult, contestant: string, what: 'seconds' | 'cpuSeconds'): number {
  return median(valuesOf(row, contestant, what));
}

/** The largest of all rounds. */
export function peakOf(row: RowResult, contestant: string): number {
  return Math.max(...valuesOf(row, contestant, 'peakBytes'));
}

/** The contestant of the smallest median time, of those whose name matches. */
export function bestOf(row: RowResult, names: RegExp): string {
  const matching = [...row.samples.keys()].filter((name) => names.test(name));
  const byTime = matching.sort((a, b) => medianOf(row, a, 'seconds') - medianOf(row, b, 'seconds'));
  return byTime[0] ?? '';
}

/** Ours over the contestant's, each round by itself, and the median of that. */
export function ratioTo(row: RowResult, what: keyof Sample, contestant: string): number {
  return medianRatio(valuesOf(row, OURS, what), valuesOf(row, contestant, what));
}

function valuesOf(row: RowResult, contestant: string, what: keyof Sample): number[] {
  return (row.samples.get(contestant) ?? []).map((sample) => sample[what]);
}
