import fc from 'fast-check';
import { CONTROL_REQUESTS, EFFECTS, PUBLISHER_REQUESTS, S3_REQUESTS, TRITON_REQUESTS, type Fault } from './network';

/** One model of a release: the number of the newest version, how many are served, and which variant of its bytes it is. */
export interface ModelChoice {
  version: number;
  count: number;
  /** 0 and 1: contents under the same number. */
  variant: number;
  labels: 'none' | 'x' | 'y';
  /** The newest version does not load. */
  isBad: boolean;
}

export interface Publish {
  at: number;
  a: ModelChoice;
  b: ModelChoice;
  /** Seconds for which the first pod serves it alone. No client sends requests. */
  bake?: number;
}

/** Something that happens to a program at a time. */
export type Happening =
  | { kind: 'kill' | 'interrupt'; publisher: number; at: number }
  | { kind: 'restart agent' | 'restart Triton'; pod: number; at: number; ms: number }
  | { kind: 'agent dies at a write'; pod: number; at: number; writes: number; ms: number }
  | { kind: 'lose S3' | 'freeze' | 'suspend'; program: string; at: number; ms: number }
  | { kind: 'set clock'; pod: number; at: number; ms: number }
  | { kind: 'replace pod' | 'add pod'; pod: number; at: number };

export interface Scenario {
  /** Of delays, and of the random numbers of all programs. */
  seed: number;
  pods: number;
  publishes: Publish[];
  happenings: Happening[];
  faults: Fault[];
  /** Whether hours without faults follow. */
  hours: boolean;
}

const PODS = 2;
const PUBLISHERS = 3;

const time = fc.integer({ min: 0, max: 90 }).map((tenths) => tenths * 500);
const duration = fc.constantFrom(100, 1000, 5000, 15_000, 40_000, 90_000);
const pod = fc.nat(PODS - 1);
const publisher = fc.nat(PUBLISHERS - 1);
const podName = pod.map((i) => `pod-${i}`);
const publisherName = publisher.map((i) => `publisher-${i}`);

const model: fc.Arbitrary<ModelChoice> = fc.record({
  version: fc.integer({ min: 1, max: 5 }),
  count: fc.integer({ min: 1, max: 2 }),
  variant: fc.constantFrom(0, 0, 0, 0, 1),
  labels: fc.constantFrom('none', 'x', 'y'),
  isBad: fc.constantFrom(false, false, false, false, false, true),
});

const publish: fc.Arbitrary<Publish> = fc.record({
  ...{ at: time, a: model, b: model },
  bake: fc.constantFrom(0, 0, 0, 30, 100),
});

const happening: fc.Arbitrary<Happening> = fc.oneof(
  fc.record({ kind: fc.constantFrom('kill', 'interrupt'), publisher, at: time }),
  fc.record({ kind: fc.constantFrom('restart agent', 'restart Triton'), pod, at: time, ms: duration }),
  fc.record({
    kind: fc.constant('agent dies at a write'),
    pod,
    at: time,
    writes: fc.nat(30),
    ms: fc.constantFrom(100, 1000, 15_000),
  }),
  fc.record({
    kind: fc.constantFrom('lose S3', 'freeze', 'suspend'),
    program: fc.oneof(podName, publisherName),
    at: time,
    ms: duration,
  }),
  fc.record({ kind: fc.constant('set clock'), pod, at: time, ms: fc.constantFrom(-3_600_000, -60_000, 60_000) }),
  fc.record({ kind: fc.constantFrom('replace pod', 'add pod'), pod, at: time }),
);

const effect = fc.constantFrom(...EFFECTS);
const few = fc.nat(3);
const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.record({
    client: publisherName,
    request: fc.constantFrom(...PUBLISHER_REQUESTS, 'put head', ...CONTROL_REQUESTS),
    nth: few,
    effect,
    ms: duration,
  }),
  fc.record({
    client: podName,
    request: fc.constantFrom(...S3_REQUESTS, ...TRITON_REQUESTS),
    nth: fc.nat(6),
    effect,
    ms: duration,
  }),
  fc.record({
    client: podName,
    request: fc.constant('read object'),
    nth: fc.nat(6),
    effect: fc.constant('gets wrong bytes'),
    ms: fc.constant(0),
  }),
);

/** A scenario without faults is rare, and one with many of them is too. */
export const scenarios: fc.Arbitrary<Scenario> = fc.record({
  seed: fc.nat(),
  pods: fc.integer({ min: 1, max: PODS }),
  publishes: fc.array(publish, { minLength: 1, maxLength: PUBLISHERS, size: 'max' }),
  happenings: fc.array(happening, { maxLength: 4, size: 'max' }),
  faults: fc.array(fault, { maxLength: 5, size: 'max' }),
  hours: fc.integer({ min: 0, max: 99 }).map((one) => one === 99),
});

/** One line for each thing that happens, in the order of time. */
export function describeScenario({ seed, pods, publishes, happenings, faults, hours }: Scenario): string[] {
  const timed = [
    ...publishes.map(({ at, a, b, bake = 0 }, i) => ({
      at,
      text: `publisher-${i} publishes a ${describeModel(a)}, b ${describeModel(b)}${bake === 0 ? '' : `, bakes ${bake} s`}`,
    })),
    ...happenings.map(({ kind, at, ...rest }) => ({ at, text: `${kind} ${JSON.stringify(rest)}` })),
  ];
  return [
    `seed ${seed}, ${pods} pods`,
    ...timed.sort((x, y) => x.at - y.at).map(({ at, text }) => `${at / 1000} s: ${text}`),
    ...faults.map(
      ({ client, request, nth, effect: what, ms }) => `${client}: "${request}" number ${nth} ${what} (${ms} ms)`,
    ),
    ...(hours ? ['hours without faults'] : []),
  ];
}

const describeModel = ({ version, count, variant, labels, isBad }: ModelChoice): string =>
  `version ${version}${count > 1 ? ` and ${version + 1}` : ''}${variant === 0 ? '' : ' with other bytes'}, labels ${labels}${isBad ? ', does not load' : ''}`;
