import { SeededRandom } from '../soak';
import { externalReplicas, Hpa, podsReplicas, SYNC_SECONDS, type HpaSpec, type Pods } from './hpa';
import { Prometheus } from './promql';
import { Queue, type Model, type Outcome } from './triton';

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

interface Pod {
  name: string;
  readyAt: number;
  queues: Queue[];
}

/** One reading each 15 s. */
export interface Reading extends Outcome {
  at: number;
  pods: number;
  serving: number;
}

const LABELS = { namespace: 'triton', job: 'triton' };

/** Runs Triton, Prometheus and an autoscaler in virtual time. */
export function simulate(autoscaler: Autoscaler | undefined, scenario: Scenario): Reading[] {
  const random = new SeededRandom(scenario.seed);
  const prometheus = new Prometheus();
  const hpa = autoscaler && new Hpa(autoscaler);
  const signals = (autoscaler?.signals ?? []).map(({ goal, query }) => ({ goal, evaluate: prometheus.compile(query), failures: 0 }));
  const outcome: Outcome = { requests: 0, late: 0 };
  const readings: Reading[] = [];
  let pods: Pod[] = [];
  let created = 0;

  const scale = (now: number, desired: number): void => {
    while (pods.length < desired) {
      // Pods differ by a fifth, because nodes and downloads do.
      const readyAt = now === 0 ? 0 : now + scenario.startSeconds * (0.8 + 0.4 * random.fraction());
      const queues = scenario.models.map((model) => new Queue(model, random, outcome));
      pods.push({ name: `pod-${created++}`, readyAt, queues });
    }
    // A ReplicaSet deletes pods that are not ready first, then the newest.
    const order = [...pods].sort((a, b) => b.readyAt - a.readyAt);
    for (const { name } of order.slice(0, pods.length - desired)) prometheus.delete(name);
    pods = order.slice(pods.length - desired).reverse();
  };

  const scrape = (now: number): void => {
    const serving = pods.filter(({ readyAt }) => readyAt <= now);
    prometheus.add(now, 'kube_deployment_status_replicas_available', { namespace: 'triton', deployment: 'triton' }, serving.length);
    for (const { name, readyAt, queues } of pods) {
      const isUp = readyAt <= now && (scenario.scrapes?.(now, random) ?? true);
      prometheus.add(now, 'up', { ...LABELS, pod: name }, isUp ? 1 : 0);
      if (!isUp) prometheus.end((metric) => metric.startsWith('nv_'), name);
      else for (const queue of queues) scrapeQueue(now, name, queue);
    }
  };

  const scrapeQueue = (now: number, pod: string, { model, counters, pending }: Queue): void => {
    const labels = { ...LABELS, pod, model: model.name, version: model.version ?? '1' };
    const add = (metric: string, value: number, more = {}): void =>
      prometheus.add(now, `nv_inference_${metric}`, { ...labels, ...more }, value);
    add('request_success', counters.success);
    add('request_failure', counters.rejected, { reason: 'REJECTED' });
    add('queue_duration_us', counters.queueMicroseconds);
    add('request_duration_us', counters.requestMicroseconds);
    add('exec_count', counters.executions);
    add('count', counters.success);
    add('pending_request_count', pending);
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
        return podsReplicas(new Map(samples.map(({ labels, value }) => [labels['pod'] ?? '', value])), signal.goal, state);
      const value = samples[0]?.value;
      signal.failures = value === undefined ? signal.failures + 1 : 0;
      if (value !== undefined) return externalReplicas(value, signal.goal, state);
      return signal.failures > autoscaler!.failureThreshold ? Math.max(pods.length, autoscaler!.minReplicas) : undefined;
    });
  };

  scale(0, scenario.pods);
  for (let now = 0; now < scenario.hours * 3600; now += SYNC_SECONDS) {
    Object.assign(outcome, { requests: 0, late: 0 });
    const serving = pods.filter(({ readyAt }) => readyAt <= now);
    for (const { queues } of serving)
      for (const queue of queues) queue.advance(now, now + SYNC_SECONDS, queue.model.rate(now) / serving.length);
    scrape(now + SYNC_SECONDS);
    const evaluatedAt = now + 1.5 * SYNC_SECONDS;
    readings.push({ at: now, pods: pods.length, serving: serving.length, ...outcome });
    if (hpa) scale(now + SYNC_SECONDS, hpa.sync(now + SYNC_SECONDS, pods.length, proposals(evaluatedAt)));
  }
  return readings;
}
