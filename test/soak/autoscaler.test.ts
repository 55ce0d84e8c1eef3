import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withDefaults } from '../../infra/triton/settings';
import { podReadySeconds } from '../../infra/triton/timeouts';
import { paths } from '../../src/core/paths';
import { simulate, type Autoscaler, type Reading, type Scenario } from '../support/autoscaler/fleet';
import type { HpaSpec } from '../support/autoscaler/hpa';
import type { Model } from '../support/autoscaler/triton';
import { ARGS, render } from '../support/render';
import { repetitions, SeededRandom, SOAK_SEED } from '../support/soak';

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
const between = (readings: Reading[], from: number, to = Infinity): Reading[] =>
  readings.filter(({ at }) => at >= from && at < to);
const swing = (readings: Reading[]): number =>
  Math.max(...readings.map(({ pods }) => pods)) - Math.min(...readings.map(({ pods }) => pods));
const lateShare = (readings: Reading[]): number =>
  sum(readings.map(({ late }) => late)) / sum(readings.map(({ requests }) => requests));
const podHours = (readings: Reading[]): number => sum(readings.map(({ pods }) => pods)) / 240;
const podStarts = (readings: Reading[]): number =>
  sum(readings.map(({ pods }, index) => Math.max(0, pods - (readings[index - 1]?.pods ?? pods))));
const last = (readings: Reading[]): number => readings.at(-1)?.pods ?? 0;

type Case = Omit<Scenario, 'startSeconds' | 'seed'>;

const run = (by: Autoscaler | undefined, of: Case, seed = SOAK_SEED): Reading[] =>
  simulate(by, { ...of, startSeconds: START_SECONDS, seed });

/** How many instances the requests of a time keep busy. */
const busyAt = ({ models }: Case, now: number): number =>
  sum(models.map(({ rate, seconds }) => rate(now) * seconds(1, now)));

/** The least constant number of pods with which no larger share of the requests waits too long. */
function leastConstant(of: Case, share: number): number {
  const times = Array.from({ length: of.hours * 60 }, (_, minute) => minute * 60);
  let pods = Math.ceil(sum(times.map((now) => busyAt(of, now))) / times.length);
  while (lateShare(run(undefined, { ...of, pods })) > share) pods += 1;
  return pods;
}

const CHANGE = HOUR;
const BACK = 3 * HOUR;
const changed =
  (from: number, to: number) =>
  (now: number): number =>
    now >= CHANGE && now < BACK ? to : from;

/** Starts at 6:00. The night is from 20:00 until 6:00, and needs two pods: with one, requests wait for 200 ms. */
const NIGHT = 14 * HOUR;
const NIGHT_PODS = 2;
const day = (now: number): number => 0.8 + (now < NIGHT ? 5 * Math.sin((now / (NIGHT + 2 * HOUR)) * Math.PI) : 0);

const steady = model(() => 3.2);

const CASES = {
  step: {
    title: 'the load becomes 4 times as high for 2 hours',
    models: [model(changed(1.2, 4.8))],
    hours: 5,
    pods: 2,
  },
  slow: {
    title: 'requests take 3 times as long for 2 hours',
    models: [{ ...model(() => 1.2, 20), seconds: (_: number, now: number) => changed(0.02, 0.06)(now) }],
    hours: 5,
    pods: 2,
  },
  refused: {
    title: 'the load becomes 3 times as high for 2 hours; requests are rejected after 200 ms',
    models: [model(changed(1.2, 3.6), 20, { rejectSeconds: 0.2 })],
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
  return { models: [model(() => busy, [50, 100, 150][index % 3])], hours: 2, pods: Math.ceil(busy / 0.7) };
});

/** Time from the change until as many pods serve as the load keeps busy. */
function servedAfter(of: Case, readings: Reading[]): number {
  const needed = Math.ceil(busyAt(of, CHANGE));
  return (between(readings, CHANGE).find(({ serving }) => serving >= needed)?.at ?? Infinity) - CHANGE;
}

/** The largest share of requests that may wait for too long once the pods are enough. */
const LATE_SHARE = 0.2;

const swings = (readings: Reading[][]): number[] => readings.map((of) => swing(between(of, HOUR)));
const AT_MOST_ONE = [0, 1];

let keda: Autoscaler;
let customMetrics: Autoscaler;
const results: Partial<Record<keyof typeof CASES, Reading[]>> = {};
let levels: Reading[][] = [];

beforeAll(async () => {
  keda = await autoscaler('keda');
  customMetrics = await autoscaler('custom-metrics');
  for (const name of Object.keys(CASES) as (keyof typeof CASES)[]) results[name] = run(keda, CASES[name]);
  levels = LEVELS.map((of) => run(keda, of));
});

const readingsOf = (name: keyof typeof CASES): Reading[] => results[name] ?? [];

test('at a constant load, the number of pods changes by at most one after the first hour', () => {
  expect(AT_MOST_ONE).toEqual(expect.arrayContaining(swings(levels)));
  expect(lateShare(levels.flatMap((of) => between(of, HOUR)))).toBeLessThanOrEqual(LATE_SHARE);
});

test.each([
  ['one pod', () => 1],
  ['six pods too many', (pods: number) => pods + 6],
] as const)('a constant load that begins with %s ends with the same number of pods', (_, begin) => {
  const some = LEVELS.flatMap((of, index) => (index % 4 === 3 ? [{ of, level: levels[index] ?? [] }] : []));
  const others = some.map(({ of }) => run(keda, { ...of, pods: begin(of.pods) }));
  expect(AT_MOST_ONE).toEqual(expect.arrayContaining(swings(others)));
  expect(AT_MOST_ONE).toEqual(
    expect.arrayContaining(some.map(({ level }, index) => Math.abs(last(level) - last(others[index] ?? [])))),
  );
});

test.each(['step', 'slow', 'refused'] as const)('%s: enough pods serve within a start and two minutes', (name) => {
  expect(servedAfter(CASES[name], readingsOf(name))).toBeLessThanOrEqual(START_SECONDS + REACTION_SECONDS);
  expect(lateShare(between(readingsOf(name), BACK - HOUR, BACK))).toBeLessThanOrEqual(LATE_SHARE);
});

test('the night costs at most 1.3 times the least', () => {
  const night = between(readingsOf('day'), NIGHT);
  expect(podHours(night) / (NIGHT_PODS * 10)).toBeLessThanOrEqual(1.3);
});

test('a canary, a rare model and a delay for batches do not change the number of pods', () => {
  expect(swing(between(readingsOf('others'), HOUR))).toBeLessThanOrEqual(1);
});

test('while half of the scrapes are lost, the number of pods changes by at most two', () => {
  // Means are of half as many samples.
  expect(swing(between(readingsOf('scrapes'), HOUR))).toBeLessThanOrEqual(2);
});

test.each(['keda', 'custom-metrics'] as const)('%s changes nothing while Prometheus is lost', (kind) => {
  const readings = kind === 'keda' ? readingsOf('blind') : run(customMetrics, CASES.blind);
  expect(swing(between(readings, CHANGE, BACK))).toBe(0);
});

test('custom-metrics behaves as keda', () => {
  const every = LEVELS.flatMap((of, index) => (index % 5 === 4 ? [{ of, pods: last(levels[index] ?? []) }] : []));
  const readings = every.map(({ of }) => run(customMetrics, of));
  expect(AT_MOST_ONE).toEqual(expect.arrayContaining(swings(readings)));
  const differences = readings.map((of, index) => Math.abs(last(of) - (every[index]?.pods ?? 0)));
  expect(AT_MOST_ONE).toEqual(expect.arrayContaining(differences));
  expect(servedAfter(CASES.step, run(customMetrics, CASES.step))).toBeLessThanOrEqual(START_SECONDS + REACTION_SECONDS);
});

describe('the simulation finds a fault', () => {
  test('without the second signal, a step takes two starts of pods', () => {
    const readings = run({ ...keda, signals: keda.signals.slice(0, 1) }, CASES.step);
    expect(servedAfter(CASES.step, readings)).toBeGreaterThan(START_SECONDS + REACTION_SECONDS);
  });

  /** The largest swing at two levels near which one pod more or less makes a difference. */
  const largestSwing = (by: Autoscaler): number =>
    Math.max(...swings(LEVELS.filter((_, index) => index === 3 || index === 24).map((of) => run(by, of))));

  test('without a stabilization window, the number of pods swings', () => {
    const { scaleUp, scaleDown } = keda.behavior;
    const behavior = { scaleUp, scaleDown: { ...scaleDown, stabilizationWindowSeconds: 0 } };
    expect(largestSwing({ ...keda, behavior })).toBeGreaterThan(1);
  });

  test('with the signals themselves instead of a function of them, the number of pods swings', () => {
    const signals = keda.signals.map(({ goal, query }) => {
      const changed = query.replace(`${2 * goal} / (1 + ${goal} / (`, '((');
      expect(changed).not.toBe(query);
      return { goal, query: changed };
    });
    expect(largestSwing({ ...keda, signals })).toBeGreaterThan(1);
  });
});

test('the number of pods holds also with other sequences of requests', () => {
  // None in the short form.
  for (let seed = SOAK_SEED + 1; seed < SOAK_SEED + repetitions(1); seed += 1)
    for (const by of [keda, customMetrics])
      expect(AT_MOST_ONE).toEqual(expect.arrayContaining(swings(LEVELS.map((of) => run(by, of, seed)))));
});

const FILE = join(paths.root, 'docs', 'operations.md');
const MARK =
  '<!-- the autoscaler in a simulation; made with UPDATE_DOCS=1 npx jest test/soak/autoscaler.test.ts --selectProjects soak -->';

const HEADER = [
  '| case | requests that waited over 100 ms | pod starts | pod hours | pod hours of the best constant number |',
  '| --- | --- | --- | --- | --- |',
];

/** A row of the table about cases of equal length. */
function row(title: string, readings: Reading[][], cases: Case[]): string {
  const all = readings.flat();
  // Half an hour is enough to compare constant loads.
  const constant = cases.map((of, index) => {
    const short = cases.length > 1 ? { ...of, hours: 0.5 } : of;
    return of.hours * leastConstant(short, lateShare(readings[index] ?? []));
  });
  const late = `${(100 * lateShare(all)).toFixed(1)}%`;
  const cells = [title, late, sum(readings.map(podStarts)), podHours(all).toFixed(0), sum(constant).toFixed(0)];
  return `| ${cells.join(' | ')} |`;
}

test('docs/operations.md has the figures', () => {
  if (SOAK_SEED !== 1) return;
  const rows = Object.entries(CASES).map(([name, of]) => row(of.title, [readingsOf(name as keyof typeof CASES)], [of]));
  const table = [...HEADER, row('30 constant loads, 2 hours each', levels, LEVELS), ...rows];
  if (process.env['UPDATE_DOCS'] === '1') {
    const [before = '', after = ''] = readFileSync(FILE, 'utf8').split(MARK);
    writeFileSync(FILE, `${before}${MARK}\n\n${table.join('\n')}\n\n${after.replace(/^\s*(\|.*\n)*\s*/, '')}`);
  }
  const written = readFileSync(FILE, 'utf8').split(MARK)[1]?.trimStart().split('\n\n')[0] ?? '';
  expect(written.replace(/ +/g, ' ').replace(/-+/g, '---').split('\n')).toEqual(
    table.map((line) => line.replace(/-+/g, '---')),
  );
});
