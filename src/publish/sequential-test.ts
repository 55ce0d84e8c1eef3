/**
 * Whether a new release answers worse than the one before. Both answer requests of the same clients at the same time, so
 * this is decided while requests arrive, and no number of them has to be chosen before.
 *
 * All comparisons are of one form. They count events. If the releases were alike, the new one would have each event with a
 * probability of at most s, and earlier events would not change that:
 *  - in an interval, the new release failed a larger share of its requests than the other one;
 *  - in an interval, the new release was the slower one, although it is allowed to take longer by a factor. In both, s is
 *    1/2 (sign test), or the share of the new release in the requests if that is larger: the largest one of all times is in
 *    the sample of a release with this probability;
 *  - a group of requests failed together, such as one request and its repetitions. It is one of the new release with the
 *    share s of its requests in the interval. Groups of up to GROUP are allowed for: each failure counts as 1/GROUP of an
 *    event, which only makes the ratio of a group smaller (Jensen's inequality). This finds soon that most requests fail.
 *
 * If the odds are higher by a factor o, the probability is os / (1 + (o - 1)s). So x events of the new release and y of the
 * other one have the likelihood ratio o^x / (1 + (o - 1)s)^(x + y). The mixture sequential probability ratio test rejects
 * when the mean of this over several factors, and over several times at which the change may have happened, exceeds 1/a. By
 * Ville's inequality that ever happens with a probability of at most a if the releases are alike, whatever number of
 * requests is waited for.
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
const GROUP = 5;
/** The first requests to a model that was just loaded take longer. */
const SETTLING_MS = 10_000;
/** A release that lacks so many answers for so long hangs. */
const MISSED = 100;
const SILENT_MS = 10_000;
/** The same in mean times of the other release. */
const SILENT_MEANS = 10;

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
  private readonly groups = ODDS.map(() => 0);
  private readonly delays = ODDS.map(() => 0);

  add({ newer, older }: Sides, maxLatencyRatio: number, hasSettled: boolean): void {
    addRequests(this.sides.newer, newer);
    addRequests(this.sides.older, older);
    if (newer.count === 0 || older.count === 0) return;
    const share = newer.count / (newer.count + older.count);
    addEvents(this.groups, newer.failed / GROUP, older.failed / GROUP, share);
    addSign(this.failures, newer.failed / newer.count - older.failed / older.count, share);
    if (hasSettled) addSign(this.delays, meanOf(newer) - maxLatencyRatio * meanOf(older), share);
  }

  /** @param bound of the logarithm of a likelihood ratio */
  find(bound: number, { maxErrorRate, maxLatencyRatio }: BakeLimits): Metric | undefined {
    const { newer, older } = this.sides;
    const fails = Math.max(...this.failures, ...this.groups) > bound;
    if (fails && newer.failed / newer.count > Math.max(maxErrorRate, older.failed / older.count)) return 'failures';
    if (Math.max(...this.delays) > bound && meanOf(newer) > maxLatencyRatio * meanOf(older)) return 'time';
    return undefined;
  }
}

/** Adds the sign of a difference. */
function addSign(logarithms: number[], difference: number, share: number): void {
  if (difference > 0) addEvents(logarithms, 1, 0, Math.max(1 / 2, share));
  else if (difference < 0) addEvents(logarithms, 0, 1, Math.max(1 / 2, share));
}

function addEvents(logarithms: number[], newer: number, older: number, share: number): void {
  ODDS.forEach((odds, i) => {
    logarithms[i] = (logarithms[i] ?? 0) + newer * Math.log(odds) - (newer + older) * Math.log(1 + (odds - 1) * share);
  });
}

export type Metric = 'failures' | 'time' | 'silence';

/** Compares one model of two releases. */
export class Comparison {
  private readonly windows: Window[] = [];
  /** Answers that each replica with the other release gave since the new one gave its last. */
  missed = 0;
  /** For how long the new release has answered nothing. */
  silentMs = 0;
  private answeredMs = 0;
  /** Intervals in which both answered. */
  common = 0;

  /** @param models number of models that are compared */
  constructor(
    private readonly limits: BakeLimits,
    private readonly models: number,
  ) {}

  /**
   * Adds an interval.
   * @param ms time from the first interval until the end of this one
   * @param others number of replicas that served the other release meanwhile; 0 if none served the new one
   */
  add(sides: Sides, ms: number, others: number): void {
    const { newer, older } = sides;
    if (ms >= this.windows.length * WINDOW_MS) this.windows.push(new Window());
    for (const window of this.windows) window.add(sides, this.limits.maxLatencyRatio, ms > SETTLING_MS);
    if (newer.count > 0 && older.count > 0) this.common += 1;
    if (newer.count > 0) [this.missed, this.answeredMs] = [0, ms];
    else if (others > 0) this.missed += older.count / others;
    this.silentMs = ms - this.answeredMs;
  }

  /** Of all intervals. */
  get total(): Sides {
    return this.windows[0]?.sides ?? { newer: noRequests(), older: noRequests() };
  }

  /** In what the new release is worse, and what was counted since then; undefined while that is not certain. */
  find(): ({ metric: Metric } & Sides) | undefined {
    const { total, missed, silentMs } = this;
    const isLong = silentMs > Math.max(SILENT_MS, SILENT_MEANS * meanOf(total.older));
    if (missed >= MISSED && isLong) return { metric: 'silence', ...total };
    for (const [i, window] of this.windows.entries()) {
      // The weights 1 / ((i + 1)(i + 2)) of all windows add up to 1. The largest term of a mean is at most the whole.
      const terms = 3 * this.models * ODDS.length * (i + 1) * (i + 2);
      const metric = window.find(Math.log(terms / FALSE_ALARMS), this.limits);
      if (metric !== undefined) return { metric, ...window.sides };
    }
    return undefined;
  }
}
