import { performance } from 'node:perf_hooks';
import { UserError } from '../core/errors';
import { formatDuration } from '../core/format';
import type { AgentStatistics, ModelCounts } from '../release/agent-api';
import type { BakedRequests, BakeRecord, BakeSetting } from '../release/bake';
import type { Manifest } from '../release/manifest';
import { addRequests, Comparison, meanOf, noRequests, type Metric, type Requests, type Sides } from './sequential-test';

export interface BakeRules extends BakeSetting {
  /** What happens to a release that too few requests have reached. */
  withoutTraffic: 'continue' | 'stop';
}

/** A model is judged after so many requests to the new release, and as many to the one before. */
const LEAST_REQUESTS = 100;
/** The same for the seconds in which both answered. */
const LEAST_SECONDS = 15;
/** Of one interval: one a second is expected. */
const MOST_MS = 2000;

/**
 * Compares what clients get of a release that is tried with what they get of the current one on the other replicas, by
 * Triton's own counters.
 */
export class Bake {
  private comparisons: ReadonlyMap<string, Comparison> = new Map();
  /** The replica that serves the release alone. */
  private canary = '';
  /** By replica. */
  private readonly last = new Map<string, AgentStatistics>();
  /** Time for which replicas of both releases were compared, since the canary serves the release. */
  private ms = 0;
  private addedAt = 0;
  private outcome: Omit<BakeRecord, 'models'> | undefined;
  /** The numbers that matter, on one line; empty when it is over. */
  text = '';

  /** @param changed names of models that differ between the releases */
  constructor(
    private readonly rules: BakeRules,
    private readonly releases: Record<'before' | 'next', Pick<Manifest, 'id' | 'models'>>,
    private readonly changed: readonly string[],
    private readonly now = () => performance.now(),
  ) {
    this.begin();
  }

  private begin(): void {
    const { before, next } = this.releases;
    const names = Object.keys(before.models).filter((name) => Object.hasOwn(next.models, name));
    this.comparisons = new Map(names.map((name) => [name, new Comparison(this.rules, names.length)]));
    this.ms = 0;
  }

  get milliseconds(): number {
    return this.rules.minutes * 60_000;
  }

  /** Whether other replicas may try the release. They are compared further. */
  get isOver(): boolean {
    return this.outcome !== undefined;
  }

  /** Undefined before the end. */
  get record(): BakeRecord | undefined {
    const rows = [...this.comparisons].flatMap(([name, { total }]) => {
      const isEmpty = total.newer.count + total.older.count === 0;
      return isEmpty ? [] : [[name, { newer: toRow(total.newer), older: toRow(total.older) }]];
    });
    const models = Object.fromEntries(rows) as BakeRecord['models'];
    return this.outcome && { ...this.outcome, models };
  }

  /**
   * Adds what replicas have answered since the last call.
   * @param newer the replicas that try the release, by their uids
   * @param older the others
   * @throws UserError if the release answers worse, or if the time is over and that could not be judged
   */
  add(newer: ReadonlyMap<string, AgentStatistics>, older: ReadonlyMap<string, AgentStatistics>): void {
    const { before, next } = this.releases;
    const canary = [...newer.keys()].join();
    if (!this.isOver && canary !== '' && canary !== this.canary) {
      this.canary = canary;
      this.begin();
    }
    const counts = { newer: this.difference(newer, next.id), older: this.difference(older, before.id) };
    const others = counts.newer.replicas > 0 ? counts.older.replicas : 0;
    const now = this.now();
    // No time passes while replicas do not answer, or this program is paused.
    if (others > 0) this.ms += Math.min(now - this.addedAt, MOST_MS);
    this.addedAt = now;
    const { ms } = this;
    for (const [name, comparison] of this.comparisons) {
      const of = (side: keyof typeof counts): Requests => counts[side].sums.get(name) ?? noRequests();
      comparison.add({ newer: of('newer'), older: of('older') }, ms, others);
      const found = comparison.find();
      if (found === undefined) continue;
      const versions = next.models[name]?.served.join(' ') ?? '';
      const reason = `${name} ${versions}: ${DESCRIBE[found.metric](found, comparison)}`;
      this.end('worse', reason);
      throw new UserError(`the release answers worse than the one before it: ${reason}`, {
        hint: 'read the log of Triton on these replicas; if the difference is meant, publish with --bake 0',
      });
    }
    if (ms >= this.milliseconds && !this.isOver) this.judge();
    this.text = this.isOver
      ? ''
      : `bake ${Math.floor(ms / 1000)} of ${Math.round(this.milliseconds / 1000)} s: ${this.describe()}`;
  }

  /** Ends a comparison that is not possible. @throws UserError, if that ends the release */
  giveUp(reason: string): void {
    if (this.isOver) return;
    this.stop(reason);
    if (this.rules.withoutTraffic === 'continue') return;
    throw new UserError(`the release could not be compared with the one before it: ${reason}`, {
      hint: 'publish with --bake-without-traffic continue, or with --bake 0',
    });
  }

  /** Ends the bake of a release that goes back for another reason. */
  stop(reason: string): void {
    if (!this.isOver) this.end('not judged', reason);
  }

  private judge(): void {
    const all = [...this.comparisons];
    const changed = all.filter(([name]) => this.changed.includes(name));
    // If no model of both releases has changed, one of the others shows whether they suffer.
    const due = changed.length > 0 ? changed : all;
    const unknown = due.filter(([, comparison]) => !isEnough(comparison));
    if (unknown.length === 0 || (changed.length === 0 && unknown.length < all.length)) return this.end('passed');
    const texts = unknown.map(
      ([name, { common, total }]) =>
        `${name} answered ${total.newer.count} requests, and ${total.older.count} on the other replicas, in ${common} common seconds`,
    );
    this.giveUp(
      `${texts.join('; ')}; at least ${LEAST_REQUESTS} of each, and ${LEAST_SECONDS} common seconds, are needed`,
    );
  }

  private end(outcome: BakeRecord['outcome'], reason?: string): void {
    // Later comparisons do not change the time of the bake.
    this.outcome = { outcome, reason, seconds: this.outcome?.seconds ?? Math.round(this.ms / 1000) };
  }

  /** What the replicas that serve the release have answered since the last call, by model. */
  private difference(
    answers: ReadonlyMap<string, AgentStatistics>,
    release: string,
  ): { sums: Map<string, Requests>; replicas: number } {
    const sums = new Map<string, Requests>();
    let replicas = 0;
    for (const [uid, answer] of answers) {
      const last = this.last.get(uid);
      this.last.set(uid, answer);
      if (answer.release !== release || last?.release !== release) continue;
      replicas += 1;
      for (const now of answer.statistics) {
        const then = last.statistics.find(({ name, version }) => name === now.name && version === now.version);
        const sum = sums.get(now.name) ?? noRequests();
        sums.set(now.name, sum);
        addRequests(sum, since(now, then));
      }
    }
    return { sums, replicas };
  }

  /** Of the changed model that got most requests. */
  private describe(): string {
    const rows = [...this.comparisons].filter(([name]) => this.changed.includes(name));
    const busy = rows.sort(([, a], [, b]) => b.total.newer.count - a.total.newer.count)[0] ?? [...this.comparisons][0];
    if (busy === undefined) return '';
    const [name, { total }] = busy;
    const { newer, older } = total;
    if (newer.count + older.count === 0) return `${name}: no requests`;
    const others = `${percent(older)}, ${formatMean(older)}`;
    return `${name}: ${percent(newer)} failed, ${formatMean(newer)}; others: ${others}; ${newer.count} and ${older.count} requests`;
  }
}

const isEnough = ({ common, total: { newer, older } }: Comparison): boolean =>
  Math.min(newer.count, older.count) >= LEAST_REQUESTS && common >= LEAST_SECONDS;

/** A version that was loaded again counts from zero. */
function since(now: ModelCounts, then: ModelCounts | undefined): Requests {
  const isSame = then !== undefined && now.answered >= then.answered && now.failed >= then.failed;
  const { answered, failed, nanoseconds } = isSame ? then : { answered: 0, failed: 0, nanoseconds: 0 };
  return {
    count: now.answered - answered + now.failed - failed,
    failed: now.failed - failed,
    milliseconds: (now.nanoseconds - nanoseconds) / 1e6,
  };
}

function toRow(requests: Requests): BakedRequests {
  const mean = meanOf(requests);
  return { count: requests.count, failed: requests.failed, milliseconds: Number.isFinite(mean) ? mean : null };
}

const DESCRIBE: Record<Metric, (sides: Sides, comparison: Comparison) => string> = {
  failures: ({ newer, older }) =>
    `${percent(newer)} of ${newer.count} requests failed, and ${percent(older)} of ${older.count} on the other replicas`,
  time: ({ newer, older }) =>
    `a request takes ${formatMean(newer)} (mean of ${newer.count}), and ${formatMean(older)} on the other replicas (mean of ${older.count})`,
  silence: (_, { missed, silentMs }) =>
    `no answer for ${formatDuration(silentMs)}, in which each other replica gave ${Math.round(missed)}: it hangs, or no client reaches it`,
};

const percent = ({ count, failed }: Requests): string =>
  count === 0 ? '0%' : `${Number(((100 * failed) / count).toPrecision(2))}%`;

function formatMean(requests: Requests): string {
  const mean = meanOf(requests);
  return Number.isFinite(mean) ? `${Number(mean.toPrecision(3))} ms` : 'unknown time';
}
