import { SeededRandom } from '../soak';
import { externalReplicas, Hpa, podsReplicas, SYNC_SECONDS, type HpaSpec, type Pods } from './hpa';
import { Prometheus, type Series } from './prometheus';
import { Queue, type Counters, type Model, type Outcome } from './triton';

/** The autoscaler as a stack creates it. */
export interface Autoscaler extends HpaSpec {
  kind: 'keda' | 'custom-metrics';
  signals: { goal: number; query: string }[];
  /** Failures after which KEDA proposes the current number. */
  failureThreshold: number;
}

export interface Scenario {
  models: readonly Model[];
  hours: number;
  startSeconds: number;
  pods: number;
  seed: number;
  /** Whether Prometheus scrapes a pod at this time. Default: always. */
  scrapes?: (now: number, random: SeededRandom) => boolean;
}

/** The series of a pod, and what each scrape reads. */
type Target = { series: Series; read: () => number }[];

interface Pod {
  name: string;
  readyAt: number;
  queues: Queue[];
  up: Series;
  target: Target;
}

/** One reading each 15 s. */
export interface Reading extends Outcome {
  at: number;
  pods: number;
  serving: number;
}

const SCRAPED = { namespace: 'triton', job: 'triton' };
const DEPLOYMENT = { namespace: 'triton', deployment: 'triton' };

/** Share of the longest start by which a start may be shorter. */
const START_SPREAD = 0.3;

const COUNTERS: [string, keyof Counters, Record<string, string>?][] = [
  ['request_success', 'success'],
  ['request_failure', 'rejected', { reason: 'REJECTED' }],
  ['request_failure', 'canceled', { reason: 'CANCELED' }],
  ['queue_duration_us', 'queueMicroseconds'],
  ['request_duration_us', 'requestMicroseconds'],
  ['exec_count', 'executions'],
  ['count', 'success'],
  ['pending_request_count', 'pending'],
];

/** Runs Triton, Prometheus and an autoscaler in virtual time. */
export function simulate(autoscaler: Autoscaler | undefined, scenario: Scenario): Reading[] {
  const random = new SeededRandom(scenario.seed);
  const prometheus = new Prometheus();
  const hpa = autoscaler && new Hpa(autoscaler);
  const signals = (autoscaler?.signals ?? []).map(({ goal, query }) => ({
    goal,
    evaluate: prometheus.compile(query),
    failures: 0,
  }));
  const outcome: Outcome = { requests: 0, late: 0 };
  const readings: Reading[] = [];
  const pods: Pod[] = [];
  let created = 0;

  const available = prometheus.create('kube_deployment_status_replicas_available', DEPLOYMENT);

  const create = (now: number): Pod => {
    const name = `pod-${created++}`;
    // Pods differ, because nodes and downloads do.
    const readyAt = now === 0 ? 0 : now + scenario.startSeconds * (1 - START_SPREAD * random.fraction());
    const queues = scenario.models.map((model) => new Queue(model, random, outcome));
    const target = queues.flatMap(({ model, counters }, index) =>
      COUNTERS.map(([metric, counter, labels = {}]) => ({
        series: prometheus.create(`nv_inference_${metric}`, {
          ...SCRAPED,
          pod: name,
          model: model.name,
          version: `${index}`,
          ...labels,
        }),
        read: () => counters[counter],
      })),
    );
    return { name, readyAt, queues, target, up: prometheus.create('up', { ...SCRAPED, pod: name }) };
  };

  const scale = (now: number, desired: number): void => {
    while (pods.length < desired) pods.push(create(now));
    // A ReplicaSet deletes the pods first that are not ready, then the newest ones.
    pods.sort((a, b) => a.readyAt - b.readyAt);
    for (const { up, target } of pods.splice(desired)) prometheus.delete([up, ...target.map(({ series }) => series)]);
  };

  const scrape = (now: number): void => {
    available.add(now, pods.filter(({ readyAt }) => readyAt <= now).length);
    for (const { readyAt, up, target } of pods) {
      const answers = readyAt <= now && (scenario.scrapes?.(now, random) ?? true);
      up.add(now, answers ? 1 : 0);
      for (const { series, read } of target) {
        if (answers) series.add(now, read());
        else series.isStale = true;
      }
    }
  };

  /** What each metric of the HorizontalPodAutoscaler proposes. */
  const proposals = (now: number): (number | undefined)[] => {
    const names = (some: Pod[]): string[] => some.map(({ name }) => name);
    const state: Pods = {
      current: pods.length,
      running: names(pods.filter(({ readyAt }) => readyAt <= now)),
      pending: names(pods.filter(({ readyAt }) => readyAt > now)),
    };
    return signals.map((signal) => {
      const samples = signal.evaluate(now);
      if (autoscaler?.kind === 'custom-metrics')
        return podsReplicas(
          new Map(samples.map(({ labels, value }) => [labels['pod'] ?? '', value])),
          signal.goal,
          state,
        );
      const value = samples[0]?.value;
      signal.failures = value === undefined ? signal.failures + 1 : 0;
      if (value !== undefined) return externalReplicas(value, signal.goal, state);
      // KEDA's fallback proposes the current number.
      return signal.failures > (autoscaler?.failureThreshold ?? 0) ? pods.length : undefined;
    });
  };

  scale(0, scenario.pods);
  for (let now = 0; now < scenario.hours * 3600; now += SYNC_SECONDS) {
    Object.assign(outcome, { requests: 0, late: 0 });
    const serving = pods.filter(({ readyAt }) => readyAt <= now);
    for (const { queues } of serving)
      for (const queue of queues) queue.advance(now, now + SYNC_SECONDS, queue.model.rate(now) / serving.length);
    if (hpa) scrape(now + SYNC_SECONDS);
    readings.push({ at: now, pods: pods.length, serving: serving.length, ...outcome });
    if (hpa) scale(now + SYNC_SECONDS, hpa.sync(now + SYNC_SECONDS, pods.length, proposals(now + 1.5 * SYNC_SECONDS)));
  }
  return readings;
}
