/**
 * Whether a new release answers worse than the one before. Both answer requests of the same clients at the same time, so
 * this is decided while requests arrive, and no number of them has to be chosen before.
 *
 * Both comparisons are of one form. If the releases were alike, each of some events would fall on the new one with a known
 * probability s, independently of the others:
 *  - a request that failed is one of the new release with the share s of its requests in the same interval;
 *  - the new release, allowed to take longer by a factor, is the slower one of an interval with s of at most 1/2 (sign test).
 *    This needs no shape of the times; only with very skewed ones and far more requests to the new release s is larger.
 * If the odds are higher by a factor o, the probability is os / (1 + (o - 1)s). So x events of the new release and y of the
 * other one have the likelihood ratio o^x / (1 + (o - 1)s)^(x + y). The mixture sequential probability ratio test rejects
 * when the mean of this over several factors, and over several times at which the change may have happened, exceeds 1/a. By
 * Ville's inequality that ever happens with a probability of at most a if the releases are alike, whatever number of
 * requests is waited for. Requests fail without replacement within an interval, which only makes the ratio smaller
 * (Hoeffding 1963, theorem 4).
 *
 * H. Robbins, "Statistical methods related to the law of the iterated logarithm", Ann. Math. Stat. 41, 1970; R. Johari, P.
 * Koomen, L. Pekelis, D. Walsh, "Always valid inference", Operations Research 70, 2022.
 */

import type { BakeLimits } from '../release/bake';

/** Probability that a release is found worse although it is like the one before, over all of its models. */
const FALSE_ALARMS = 0.01;
/** Factors on the odds. */
const ODDS = [2, 5, 20, 100];
/** A release may become worse later: each window begins so long after the one before it, and none ends. */
const WINDOW_MS = 30_000;

/** What replicas have answered. */
export interface Requests {
  count: number;
  /** Of these. */
  failed: number;
  /** Of those that did not fail, from their arrival in Triton. */
  milliseconds: number;
}

export interface Sides {
  newer: Requests;
  older: Requests;
}

/** Mean time of the requests that did not fail, in ms; NaN if there are none. */
export const meanOf = ({ count, failed, milliseconds }: Requests): number => milliseconds / (count - failed);

export const noRequests = (): Requests => ({ count: 0, failed: 0, milliseconds: 0 });

export function addRequests(to: Requests, { count, failed, milliseconds }: Requests): void {
  to.count += count;
  to.failed += failed;
  to.milliseconds += milliseconds;
}

/** The evidence since one time. */
class Window {
  readonly sides: Sides = { newer: noRequests(), older: noRequests() };
  private readonly failures = ODDS.map(() => 0);
  private readonly delays = ODDS.map(() => 0);

  add({ newer, older }: Sides, maxLatencyRatio: number): void {
    addRequests(this.sides.newer, newer);
    addRequests(this.sides.older, older);
    const requests = newer.count + older.count;
    if (requests > 0) addEvents(this.failures, newer.failed, older.failed, newer.count / requests);
    const [now, before] = [meanOf(newer), maxLatencyRatio * meanOf(older)];
    if (now > before) addEvents(this.delays, 1, 0, 1 / 2);
    else if (now <= before) addEvents(this.delays, 0, 1, 1 / 2);
  }

  /** @param bound of the logarithm of a likelihood ratio */
  find(bound: number, { maxErrorRate, maxLatencyRatio }: BakeLimits): Metric | undefined {
    const { newer, older } = this.sides;
    if (Math.max(...this.failures) > bound && newer.failed / newer.count > maxErrorRate) return 'failures';
    if (Math.max(...this.delays) > bound && meanOf(newer) > maxLatencyRatio * meanOf(older)) return 'time';
    return undefined;
  }
}

function addEvents(logarithms: number[], newer: number, older: number, share: number): void {
  ODDS.forEach((odds, i) => {
    logarithms[i] = (logarithms[i] ?? 0) + newer * Math.log(odds) - (newer + older) * Math.log(1 + (odds - 1) * share);
  });
}

export type Metric = 'failures' | 'time';

/** Compares one model of two releases. */
export class Comparison {
  private readonly windows: Window[] = [];

  /** @param models number of models that are compared */
  constructor(
    private readonly limits: BakeLimits,
    private readonly models: number,
  ) {}

  /**
   * Adds an interval.
   * @param ms time from the first interval until this one
   */
  add(sides: Sides, ms: number): void {
    if (ms >= this.windows.length * WINDOW_MS) this.windows.push(new Window());
    for (const window of this.windows) window.add(sides, this.limits.maxLatencyRatio);
  }

  /** Of all intervals. */
  get total(): Sides {
    return this.windows[0]?.sides ?? { newer: noRequests(), older: noRequests() };
  }

  /** In what the new release is worse, and what was counted since then; undefined while that is not certain. */
  find(): ({ metric: Metric } & Sides) | undefined {
    for (const [i, window] of this.windows.entries()) {
      // The weights 1 / ((i + 1)(i + 2)) of all windows add up to 1. The largest term of a mean is at most the whole.
      const terms = 2 * this.models * ODDS.length * (i + 1) * (i + 2);
      const metric = window.find(Math.log(terms / FALSE_ALARMS), this.limits);
      if (metric !== undefined) return { metric, ...window.sides };
    }
    return undefined;
  }
}
