import { performance } from 'node:perf_hooks';
import { UserError } from '../core/errors';
import { formatDuration } from '../core/format';
import type { AgentStatistics, ModelCounts } from '../release/agent-api';
import type { BakedRequests, BakeRecord, BakeSetting } from '../release/bake';
import type { Manifest } from '../release/manifest';
import { addRequests, Comparison, meanOf, noRequests, type Requests, type Sides } from './sequential-test';

export interface BakeRules extends BakeSetting {
  /** What happens to a release that too few requests have reached. */
  withoutTraffic: 'continue' | 'stop';
}

/** A changed model is judged after so many requests to the new release, and as many to the one before. */
const LEAST_REQUESTS = 100;

/**
 * Compares what clients get of a release that is tried with what they get of the current one on the other replicas, by
 * Triton's own counters.
 */
export class Bake {
  private readonly comparisons: ReadonlyMap<string, Comparison>;
  /** By replica. */
  private readonly last = new Map<string, AgentStatistics>();
  private started: number | undefined;
  private seconds = 0;
  private outcome: Pick<BakeRecord, 'outcome' | 'reason'> | undefined;
  /** The numbers that matter, on one line; empty when it is over. */
  text = '';

  /** @param changed names of models that differ between the releases */
  constructor(
    private readonly rules: BakeRules,
    private readonly releases: Record<'before' | 'next', Pick<Manifest, 'id' | 'models'>>,
    private readonly changed: readonly string[],
    private readonly now = () => performance.now(),
  ) {
    const { before, next } = releases;
    const names = Object.keys(before.models).filter((name) => Object.hasOwn(next.models, name));
    this.comparisons = new Map(names.map((name) => [name, new Comparison(rules, names.length)]));
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
    const rows = [...this.comparisons].flatMap(
      ([
        name,
        {
          total: { newer, older },
        },
      ]) => (newer.count + older.count === 0 ? [] : [[name, { newer: toRow(newer), older: toRow(older) }]]),
    );
    const models = Object.fromEntries(rows) as BakeRecord['models'];
    return this.outcome && { ...this.outcome, seconds: Math.round(this.seconds), models };
  }

  /**
   * Adds what replicas have answered since the last call.
   * @param newer the replicas that try the release, by their uids
   * @param older the others
   * @throws UserError if the release answers worse, or if the time is over and that could not be judged
   */
  add(newer: ReadonlyMap<string, AgentStatistics>, older: ReadonlyMap<string, AgentStatistics>): void {
    const { before, next } = this.releases;
    const counts = { newer: this.difference(newer, next.id), older: this.difference(older, before.id) };
    const now = this.now();
    this.started ??= now;
    const ms = now - this.started;
    if (!this.isOver) this.seconds = ms / 1000;
    for (const [name, comparison] of this.comparisons) {
      const sides = { newer: counts.newer.get(name) ?? noRequests(), older: counts.older.get(name) ?? noRequests() };
      comparison.add(sides, ms);
      const found = comparison.find();
      if (found === undefined) continue;
      const versions = next.models[name]?.served.join(' ') ?? '';
      const reason = `${name} ${versions}: ${found.metric === 'failures' ? describeFailures(found) : describeTimes(found)}`;
      this.end('worse', reason);
      throw new UserError(`the release answers worse than the one before it: ${reason}`, {
        hint: 'read the log of Triton on these replicas; if the difference is meant, publish with --bake 0',
      });
    }
    if (ms >= this.milliseconds && !this.isOver) this.judge();
    this.text = this.isOver
      ? ''
      : `bake ${formatDuration(ms)} of ${formatDuration(this.milliseconds)}: ${this.describe()}`;
  }

  /** Ends a comparison that is not possible. @throws UserError, if that ends the release */
  giveUp(reason: string, mayHang = false): void {
    if (this.isOver) return;
    this.end('not judged', reason);
    if (this.rules.withoutTraffic === 'continue' && !mayHang) return;
    throw new UserError(`the release could not be compared with the one before it: ${reason}`, {
      hint: mayHang
        ? 'read the log of Triton on the first replica, which may not answer at all; or publish with --bake 0'
        : 'publish with --bake-without-traffic continue, or with --bake 0',
    });
  }

  private judge(): void {
    const unknown = this.changed.flatMap((name) => {
      const { newer, older } = this.comparisons.get(name)?.total ?? {};
      if (newer === undefined || older === undefined) return [];
      return Math.min(newer.count, older.count) < LEAST_REQUESTS ? [{ name, newer, older }] : [];
    });
    if (unknown.length === 0) return this.end('passed');
    const texts = unknown.map(
      ({ name, newer, older }) => `${name} answered ${newer.count} requests, and ${older.count} on the other replicas`,
    );
    const mayHang = unknown.some(({ newer, older }) => newer.count === 0 && older.count >= LEAST_REQUESTS);
    this.giveUp(`${texts.join('; ')}; at least ${LEAST_REQUESTS} are needed of each`, mayHang);
  }

  private end(outcome: BakeRecord['outcome'], reason?: string): void {
    this.outcome = { outcome, reason };
  }

  /** What the replicas that serve the release have answered since the last call, by model. */
  private difference(answers: ReadonlyMap<string, AgentStatistics>, release: string): Map<string, Requests> {
    const sums = new Map<string, Requests>();
    for (const [uid, answer] of answers) {
      const last = this.last.get(uid);
      this.last.set(uid, answer);
      if (answer.release !== release || last?.release !== release) continue;
      for (const now of answer.statistics) {
        const then = last.statistics.find(({ name, version }) => name === now.name && version === now.version);
        const sum = sums.get(now.name) ?? noRequests();
        sums.set(now.name, sum);
        addRequests(sum, since(now, then));
      }
    }
    return sums;
  }

  /** Of the changed model that got most requests. */
  private describe(): string {
    const rows = [...this.comparisons].filter(([name]) => this.changed.includes(name));
    const busy = rows.sort(([, a], [, b]) => b.total.newer.count - a.total.newer.count)[0] ?? [...this.comparisons][0];
    if (busy === undefined) return '';
    const [name, { total }] = busy;
    const [newer, older] = [total.newer, total.older].map((side) =>
      side.count === 0 ? 'no requests' : `${side.count} requests, ${percent(side)} failed, ${formatMean(side)}`,
    );
    return `${name} ${newer}; before: ${older}`;
  }
}

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

const describeFailures = ({ newer, older }: Sides): string =>
  `${percent(newer)} of ${newer.count} requests failed, and ${percent(older)} of ${older.count} before`;

const describeTimes = ({ newer, older }: Sides): string =>
  `a request takes ${formatMean(newer)} (mean of ${newer.count}), and ${formatMean(older)} before (mean of ${older.count})`;

const percent = ({ count, failed }: Requests): string =>
  count === 0 ? '0%' : `${Number(((100 * failed) / count).toPrecision(2))}%`;

function formatMean(requests: Requests): string {
  const mean = meanOf(requests);
  return Number.isFinite(mean) ? `${mean.toPrecision(3)} ms` : 'unknown time';
}
