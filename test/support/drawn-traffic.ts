import type { Bake } from '../../src/publish/bake';
import { UserError } from '../../src/core/errors';
import type { AgentStatistics } from '../../src/release/agent-api';
import type { SeededRandom } from './soak';

/** How a release answers: the share of its requests that fail, and its mean time in ms, so long after it was loaded. */
export type Behaviour = (seconds: number) => { errors: number; mean: number };

export interface DrawnTraffic {
  replicas: number;
  /** Replicas of these that try the release; the others serve the current one. */
  trying: number;
  /** To all replicas. */
  requestsPerSecond: number;
  /** Standard deviation of the logarithm of the time of one request. */
  spread: number;
  /** The same of a factor on the times of one replica in one interval. */
  noise: number;
  /** Number of requests that fail together, on one replica in one interval. */
  group?: number;
  older: Behaviour;
  newer: Behaviour;
}

const INTERVAL_MS = 1000;
export const RELEASES = { before: 'r1', next: 'r2' } as const;

/** A bake in virtual time. @returns the decision, and the time until it in seconds */
export function drawBake(
  random: SeededRandom,
  traffic: DrawnTraffic,
  makeBake: (now: () => number) => Bake,
): { worse: boolean; seconds: number; reason: string } {
  let now = 0;
  const bake = makeBake(() => now);
  const replicas = Array.from({ length: traffic.replicas }, (_, i) => ({
    release: i < traffic.trying ? RELEASES.next : RELEASES.before,
    ...{ answered: 0, failed: 0, nanoseconds: 0 },
  }));
  const look = (from: number, to: number): Map<string, AgentStatistics> =>
    new Map(
      replicas.slice(from, to).map(({ release, ...counts }, i) => {
        const statistics = [{ name: 'm', version: '1', ...counts }];
        return [String(from + i), { release, statistics } as unknown as AgentStatistics];
      }),
    );
  // The load of all replicas changes with time.
  let load = 0;
  try {
    for (; !bake.isOver; now += INTERVAL_MS) {
      bake.add(look(0, traffic.trying), look(traffic.trying, replicas.length));
      load = 0.9 * load + 0.1 * normal(random);
      for (const [i, replica] of replicas.entries()) {
        const { errors, mean } = (i < traffic.trying ? traffic.newer : traffic.older)(now / 1000);
        const count = poisson(random, (traffic.requestsPerSecond * INTERVAL_MS) / 1000 / replicas.length);
        const { group = 1 } = traffic;
        const failed = Math.min(count, group * binomial(random, count, errors / group));
        replica.failed += failed;
        replica.answered += count - failed;
        const factor = Math.exp(load + traffic.noise * normal(random));
        for (let k = failed; k < count; k += 1) {
          const time = mean * factor * Math.exp(traffic.spread * normal(random) - traffic.spread ** 2 / 2);
          replica.nanoseconds += time * 1e6;
        }
      }
    }
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { worse: bake.record?.outcome === 'worse', seconds: now / 1000, reason: error.message };
  }
  return { worse: false, seconds: now / 1000, reason: '' };
}

/** Box and Muller. */
const normal = (random: SeededRandom): number =>
  Math.sqrt(-2 * Math.log(1 - random.fraction())) * Math.cos(2 * Math.PI * random.fraction());

/** By the times between events. */
function poisson(random: SeededRandom, mean: number): number {
  let count = -1;
  for (let time = 0; time < mean; count += 1) time -= Math.log(1 - random.fraction());
  return count;
}

function binomial(random: SeededRandom, count: number, probability: number): number {
  let sum = 0;
  if (probability === 0) return 0;
  for (let i = 0; i < count; i += 1) if (random.chance(probability)) sum += 1;
  return sum;
}
