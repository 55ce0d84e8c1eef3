import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withDefaults } from '../../../../infra/triton/settings';
import { podReadySeconds } from '../../../../infra/triton/timeouts';
import { simulate, type Autoscaler, type Reading, type Scenario } from '../../../support/autoscaler/fleet';
import type { HpaSpec } from '../../../support/autoscaler/hpa';
import type { Model } from '../../../support/autoscaler/triton';
import { ARGS, render } from '../../../support/render';
import { repetitions, SeededRandom, SOAK_SEED } from '../../../support/soak';

const HOUR = 3600;

/** Budgets are twice the measured time of a start (docs/operations.md, "When a pod starts" and "Cold start by phase"). */
const START_SECONDS = podReadySeconds(withDefaults('triton', ARGS)) / 2;

/** A step is served within the longest start and this time. */
const REACTION_SECONDS = 120;

/** Of requests to one instance that computes one at a time; `busy` is the number of instances that the load keeps busy. */
const model = (busy: (now: number) => number, milliseconds = 50, more: Partial<Model> = {}): Model => ({
  name: 'bert',
  rate: (now) => (busy(now) * 1000) / milliseconds,
  seconds: () => milliseconds / 1000,
  ...more,
});

/** Reads the settings from the objects that a stack creates. */
async function autoscaler(kind: Autoscaler['kind']): Promise<Autoscaler> {
  const limits = { minReplicas: 1, maxReplicas: 30 };
  const { only } = await render({ autoscaling: { kind, ...limits }, monitoring: {} });
  if (kind === 'keda') {
    const { spec } = only('ScaledObject') as unknown as { spec: ScaledObjectSpec };
    const signals = spec.triggers.map(({ metadata }) => ({ goal: Number(metadata.threshold), query: metadata.query }));
    const { behavior } = spec.advanced.horizontalPodAutoscalerConfig;
    return { kind, ...limits, behavior, signals, failureThreshold: spec.fallback.failureThreshold };
  }
  const { spec } = only('HorizontalPodAutoscaler') as unknown as { spec: HorizontalPodAutoscalerSpec };
  const { groups } = only('PrometheusRule')['spec'] as { groups: { rules: { record?: string; expr: string }[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  const signals = spec.metrics.map(({ pods: { metric, target } }) => ({
    goal: Number(target.averageValue),
    query: rules.find(({ record }) => record === metric.name)?.expr ?? '',
  }));
  return { kind, ...limits, behavior: spec.behavior, signals, failureThreshold: Infinity };
}

interface ScaledObjectSpec {
  triggers: { metadata: { query: string; threshold: string } }[];
  advanced: { horizontalPodAutoscalerConfig: Pick<HpaSpec, 'behavior'> };
  fallback: { failureThreshold: number };
}

interface HorizontalPodAutoscalerSpec extends Pick<HpaSpec, 'behavior'> {
  metrics: { pods: { metric: { name: string }; target: { averageValue: string } } }[];
}

const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
const between = (readings: Reading[], from: number, to = Infinity): Reading[] => readings.filter(({ at }) => at >= from && at < to);
const swing = (readings: Reading[]): number => Math.max(...readings.map(({ pods }) => pods)) - Math.min(...readings.map(({ pods }) => pods));
const lateShare = (readings: Reading[]): number => sum(readings.map(({ late }) => late)) / sum(readings.map(({ requests }) => requests));
const podHours = (readings: Reading[]): number => sum(readings.map(({ pods }) => pods)) / 240;
const podStarts = (readings: Reading[]): number => sum(readings.map(({ pods }, index) => Math.max(0, pods - (readings[index - 1]?.pods ?? pods))));
const last = (readings: Reading[]): number => readings.at(-1)?.pods ?? 0;

type Case = Omit<Scenario, 'startSeconds' | 'seed'>;

const run = (by: Autoscaler | undefined, of: Case, seed = SOAK_SEED): Reading[] => simulate(by, { ...of, startSeconds: START_SECONDS, seed });

/** The least constant number of pods with which no larger share of the requests waits too long. */
function leastConstant(of: Case, share: number): number {
  const times = Array.from({ length: of.hours * 60 }, (_, minute) => minute * 60);
  const busiest = Math.max(...times.map((now) => sum(of.models.map(({ rate, seconds }) => rate(now) * seconds(1, now)))));
  let pods = Math.ceil(busiest);
  while (lateShare(run(undefined, { ...of, pods })) > share) pods += 1;
  return pods;
}

const CHANGE = HOUR;
const BACK = 3 * HOUR;
const changed = (from: number, to: number) => (now: number): number => (now >= CHANGE && now < BACK ? to : from);

/** Starts at 6:00. The night is from 20:00 until 6:00, and needs two pods: with one, requests wait for 200 ms. */
const NIGHT = 14 * HOUR;
const NIGHT_PODS = 2;
const day = (now: number): number => 0.8 + (now < NIGHT ? 5 * Math.sin((now / (NIGHT + 2 * HOUR)) * Math.PI) : 0);

const steady = model(() => 3.2);

const CASES = {
  step: { title: 'the load becomes 4 times as high for 2 hours', models: [model(changed(1.2, 4.8))], hours: 5, pods: 2 },
  slow: {
    title: 'requests take 4 times as long for 2 hours',
    models: [{ ...model(() => 1.2), seconds: (_: number, now: number) => changed(0.05, 0.2)(now) }],
    hours: 5,
    pods: 2,
  },
  refused: {
    title: 'the load becomes 3 times as high for 2 hours; requests are rejected after 200 ms',
    models: [model(changed(1.2, 3.6), 50, { rejectSeconds: 0.2 })],
    hours: 5,
    pods: 2,
  },
  day: { title: 'a day and a night', models: [model(day, 100)], hours: 24, pods: 3 },
  bursts: {
    title: 'the load becomes 4 times as high for 30 s, every 20 minutes',
    models: [model((now) => (now % 1200 < 30 ? 5.6 : 1.4))],
    hours: 4,
    pods: 3,
  },
  scrapes: {
    title: 'half of the scrapes are lost',
    models: [steady],
    hours: 3,
    pods: 5,
    scrapes: (_: number, random: SeededRandom) => random.chance(0.5),
  },
  blind: {
    title: 'Prometheus is lost for 2 hours, in which the load is a third',
    models: [model(changed(3.6, 1.2))],
    hours: 4,
    pods: 6,
    scrapes: (now: number) => now < CHANGE || now >= BACK,
  },
  others: {
    title: 'a canary, a rare model, and one that waits for batches',
    models: [
      steady,
      model(() => 0.05, 150),
      model(() => 0.003, 300, { name: 'rare' }),
      model(() => 0.2, 10, { name: 'batches', maxBatch: 8, delaySeconds: 0.01 }),
    ],
    hours: 3,
    pods: 5,
  },
} satisfies Record<string, Case & { title: string }>;

const LEVELS = Array.from({ length: 30 }, (_, index): Case => {
  const busy = 0.2 * (index + 1);
  return { models: [model(() => busy, [40, 80, 160][index % 3])], hours: 2, pods: Math.ceil(busy / 0.7) };
});

let autoscalers: Autoscaler[] = [];
beforeAll(async () => {
  autoscalers = [await autoscaler('keda'), await autoscaler('custom-metrics')];
});
const path = (r: Reading[]): string => r.filter((x, i) => i === 0 || x.pods !== r[i - 1]!.pods).map((x) => `${Math.round(x.at / 60)}:${x.pods}`).join(' ');
test('cases', () => {
  let t = process.cpuUsage().user;
  const cpu = (): string => { const n = process.cpuUsage().user; const d = (n - t) / 1000; t = n; return ` cpu ${d | 0} ms\n`; };
  let out = '';
  const keda = autoscalers[0]!;
  const noWindow = { ...keda, behavior: { ...keda.behavior, scaleDown: { ...keda.behavior.scaleDown, stabilizationWindowSeconds: 0 } } };
  for (const [what, by] of [['keda', keda], ['custom', autoscalers[1]!], ['no window', noWindow], ['queue only', { ...keda, signals: keda.signals.slice(0, 1) }], ['batches only', { ...keda, signals: keda.signals.slice(1) }]] as const) {
  for (const [name, of] of Object.entries(CASES)) {
    const r = run(by, of);
    const from = CHANGE + START_SECONDS + REACTION_SECONDS;
    out += `${what} ${name} ${by.kind} late ${lateShare(r).toFixed(3)} starts ${podStarts(r)} hours ${podHours(r).toFixed(1)} served late ${lateShare(between(r, from, BACK)).toFixed(3)} serving ${between(r, from)[0]?.serving} night ${podHours(between(r,NIGHT))/20} ${path(r)}` + cpu();
    if (what === 'keda') out += `   first 5 min ${lateShare(between(r, from, from+300)).toFixed(3)} least ${leastConstant(of, lateShare(r))}` + cpu();
  }
   const rs = LEVELS.filter((_, i) => what === 'keda' || i % 3 === 1).map((of) => run(by, of));
   out += rs.map((r) => `${swing(between(r, HOUR))}/${last(r)}/${lateShare(between(r, HOUR)).toFixed(2)}`).join(' ') + cpu();
   writeFileSync('/tmp/simx/out.txt', out);
  }
});
