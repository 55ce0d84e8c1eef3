import { judgeStorage } from '../../../../infra/doctor/after-up/check-nodes';
import { judgeReplicas } from '../../../../infra/doctor/after-up/check-replicas';
import {
  describeAddresses,
  describeNodes,
  describePods,
  describePulls,
} from '../../../../infra/doctor/after-up/describe';
import { parseDriver, parsePull, parseStorageGiB, type DriverReport } from '../../../../infra/doctor/after-up/parse';
import { AFTER_UP_CHECKS } from '../../../../infra/doctor/after-up/checks';
import { completePool } from '../../../../infra/settings/complete-pool';
import type { Settings } from '../../../../infra/settings';

test.each<[string, number | undefined]>([
  ['Successfully pulled image "a:1" in 39.553s (41.2s including waiting). Image size: 9354342327 bytes.', 41.2],
  ['Successfully pulled image "a:1" in 2m10.813s (2m10.813s including waiting)', 130.813],
  ['Successfully pulled image "a:1" in 512ms (1h2m3s including waiting). Image size: 1 bytes.', 3723],
  ['Successfully pulled image "a:1" in 12.5s', 12.5],
  ['Container image "a:1" already present on machine', undefined],
])('parsePull of %j', (message, seconds) => {
  if (seconds === undefined) expect(parsePull(message)).toBeUndefined();
  else expect(parsePull(message)).toBeCloseTo(seconds, 3);
});

test.each([
  ['239065088Ki', 228],
  ['20Gi', 20],
  ['21474836480', 20],
  ['1Ti', 1024],
  ['?', 0],
])('parseStorageGiB of %s', (quantity, GiB) => expect(Math.round(parseStorageGiB(quantity))).toBe(GiB));

test.each<[string, string, DriverReport]>([
  ['an empty log', '', { kind: 'unknown' }],
  ['a driver that is new enough', '\nNVIDIA Release 26.11 (build 1)\n', { kind: 'ok' }],
  [
    'forward compatibility',
    'NOTE: CUDA Forward Compatibility mode ENABLED.\n  Using CUDA 12.3 driver version 545.23.08 with kernel driver version 470.256.02.\n',
    { kind: 'compatible', cuda: '12.3', driver: '470.256.02' },
  ],
  [
    'no compatibility',
    'ERROR: This container was built for NVIDIA Driver Release 515.48 or later, but\n       version  was detected and compatibility mode is UNAVAILABLE.\n',
    { kind: 'too old', needed: '515.48', driver: '' },
  ],
])('parseDriver of %s', (_, log, report) => expect(parseDriver(log)).toEqual(report));

const CLASS = { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'gpu' };

// Columns: mechanism, diskGiB, GiB of the node, the level and a part of the finding.
test.each([
  ['auto-mode', 150, 228, 'ok', 'which is its local NVMe storage (232 GiB)'],
  ['auto-mode', 150, 19, 'warning', 'which this version should use'],
  ['auto-mode', 300, 295, 'ok', 'on EBS, because diskGiB (300)'],
  ['auto-mode', 300, 19, 'warning', 'less than diskGiB (300)'],
  ['managed-node-group', 150, 228, 'ok', 'which is its local NVMe storage'],
  ['managed-node-group', 150, 39, 'warning', 'which this version should use'],
  ['karpenter', 150, 228, 'ok', 'which is its local NVMe storage'],
  ['karpenter', 150, 100, 'warning', 'but g5.xlarge has 232 GiB of local NVMe storage'],
] as const)(
  'judgeStorage: %s with diskGiB %i, on a node with %i GiB',
  (mechanism, diskGiB, storageGiB, level, part) => {
    const nodeClass = mechanism === 'karpenter' ? { nodeClass: CLASS } : {};
    const pool = completePool({ name: 'gpu', mechanism, instanceTypes: ['g5.xlarge'], diskGiB, ...nodeClass });
    const found = judgeStorage({ name: 'node', instanceType: 'g5.xlarge', storageGiB }, pool);
    expect(found).toMatchObject({ level, found: expect.stringContaining(part) as string });
    expect(found.fix !== undefined).toBe(level !== 'ok');
  },
);

test.each<[string | undefined]>([['m7i.large'], [undefined]])(
  'judgeStorage does not judge a node of type %s',
  (instanceType) => {
    expect(judgeStorage({ name: 'node', instanceType, storageGiB: 10 }, undefined).level).toBe('ok');
  },
);

const NOW = new Date('2026-11-26T12:00:00Z');
const minutesAgo = (minutes: number): Date => new Date(NOW.getTime() - minutes * 60_000);

test('describeNodes leaves out nodes that are being deleted', () => {
  const metadata = { name: 'node', labels: { 'triton-serving/gpu-pool': 'gpu' }, creationTimestamp: minutesAgo(1) };
  const drained = { metadata: { ...metadata, deletionTimestamp: NOW } };
  const expected = { name: 'node', pool: 'gpu', createdAt: minutesAgo(1), ready: false };
  expect(describeNodes([drained, { metadata }])).toMatchObject([expected]);
});

// Columns: ready pods, other pods, replicas of the stack, fewest of the autoscaler.
test.each([
  [2, 0, 2, undefined, 'ok'],
  [1, 1, 2, undefined, 'error'],
  [1, 0, 2, undefined, 'error'],
  [3, 1, 2, undefined, 'warning'],
  [1, 0, 2, 1, 'ok'],
] as const)(
  'judgeReplicas: %i ready, %i not, of %i replicas (autoscaler: %s)',
  (ready, others, replicas, fewest, level) => {
    const pod = (name: string, isReady: boolean) => ({
      name,
      node: 'node',
      ready: isReady,
      running: true,
      reason: undefined,
      image: 'i',
    });
    const pods = [
      ...Array.from({ length: ready }, (_, i) => pod(`ready-${i}`, true)),
      ...Array.from({ length: others }, (_, i) => pod(`other-${i}`, false)),
    ];
    const autoscaling = fewest === undefined ? undefined : { minReplicas: fewest };
    const settings = { triton: { replicas, autoscaling } } as unknown as Settings;
    expect(judgeReplicas(pods, settings, 'triton').map((finding) => finding.level)).toEqual([level]);
  },
);

const CRASHED = { terminated: { exitCode: 1, reason: 'Error' } };
const waiting = (reason: string) => ({ waiting: { reason } });

/** Columns: name, state of the agent and of Triton, the reason. */
test.each([
  ['of the agent', waiting('ImagePullBackOff'), waiting('PodInitializing'), 'agent: ImagePullBackOff'],
  ['of an agent that ended', CRASHED, waiting('PodInitializing'), 'agent: Error'],
  ['of an agent that restarts', waiting('CrashLoopBackOff'), { running: {} }, 'agent: CrashLoopBackOff'],
  ['of Triton', { running: {} }, waiting('CrashLoopBackOff'), 'CrashLoopBackOff'],
  ['of Triton after an init container', { terminated: { exitCode: 0, reason: 'Completed' } }, CRASHED, 'Error'],
  ['of a pod that is Ready', { running: {} }, { running: {} }, undefined],
])('describePods: the reason %s', (_, agent, triton, reason) => {
  const status = (name: string, state: object) => ({
    name,
    state,
    image: '',
    imageID: '',
    ready: false,
    restartCount: 0,
  });
  const containers = { initContainerStatuses: [status('agent', agent)], containerStatuses: [status('triton', triton)] };
  expect(describePods([{ status: containers }])).toMatchObject([{ reason }]);
});

test('describePulls has the longest pull of each replica, without other pods and containers', () => {
  const event = (name: string, container: string, duration: string) => ({
    involvedObject: { name, fieldPath: `spec.containers{${container}}` },
    message: `Successfully pulled image "a:1" in ${duration}`,
    metadata: {},
  });
  const events = [
    event('a', 'triton', '412ms'),
    event('a', 'triton', '41s'),
    event('a', 'agent', '50s'),
    event('foreign', 'triton', '60s'),
  ];
  expect(describePulls(events, [{ name: 'a' }, { name: 'b' }])).toEqual([{ pod: 'a', seconds: 41 }]);
});

test('describeAddresses has the IP address of a load balancer without a host name', () => {
  const object = (...ingress: object[]) => ({ status: { loadBalancer: { ingress } } });
  expect(describeAddresses([object({ hostname: 'a' }, { ip: '10.0.0.1' }), object(), {}])).toEqual(['a', '10.0.0.1']);
});

test('every check after an update has its own name', () => {
  expect(new Set(AFTER_UP_CHECKS.map(({ name }) => name)).size).toBe(AFTER_UP_CHECKS.length);
});
