import type { AfterUpContext } from '../../../../infra/doctor/after-up/check';
import { driverCheck, judgeDriver, judgeStorage, nodesCheck } from '../../../../infra/doctor/after-up/check-nodes';
import { judgeReplicas } from '../../../../infra/doctor/after-up/check-replicas';
import { targetsCheck } from '../../../../infra/doctor/after-up/check-targets';
import {
  describeAddresses,
  describeNodes,
  describePods,
  describePulls,
} from '../../../../infra/doctor/after-up/describe';
import { parseDriver, parsePull, parseStorageGiB, type DriverReport } from '../../../../infra/doctor/after-up/parse';
import { AFTER_UP_CHECKS } from '../../../../infra/doctor/after-up/checks';
import type { GpuNode } from '../../../../infra/doctor/after-up/serving-cluster';
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
  ['auto-mode', 250, 232, 'ok', 'cannot tell whether that is local NVMe storage (232 GiB) or EBS (diskGiB: 250)'],
  ['auto-mode', 225, 220, 'ok', 'cannot tell'],
  ['auto-mode', 250, 247, 'ok', 'on EBS, because diskGiB (250)'],
  ['auto-mode', 150, 500, 'warning', 'which this version should use'],
  ['managed-node-group', 150, 228, 'ok', 'which is its local NVMe storage'],
  ['managed-node-group', 150, 39, 'warning', 'which this version should use'],
  ['karpenter', 150, 228, 'ok', 'which is its local NVMe storage'],
  ['karpenter', 150, 100, 'warning', 'but g5.xlarge has 232 GiB of local NVMe storage'],
  ['karpenter', 150, 500, 'warning', 'but g5.xlarge has 232 GiB of local NVMe storage'],
  ['karpenter', 250, 228, 'ok', 'which is its local NVMe storage'],
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

// Columns: mechanism, diskGiB, GiB of the node, how the node is replaced.
test.each([
  ['auto-mode', 300, 19, 'kubectl delete node node-1'],
  ['auto-mode', 150, 19, 'kubectl get node node-1 --output yaml'],
  ['managed-node-group', 300, 19, 'terminate the instance of node-1'],
] as const)(
  'judgeStorage: the fix for %s with diskGiB %i, on a node with %i GiB',
  (mechanism, diskGiB, storageGiB, fix) => {
    const pool = completePool({ name: 'gpu', mechanism, instanceTypes: ['g5.xlarge'], diskGiB });
    expect(judgeStorage({ name: 'node-1', instanceType: 'g5.xlarge', storageGiB }, pool).fix).toContain(fix);
  },
);

test.each([
  [295, 'on EBS, because diskGiB (300)'],
  [550, 'which is its local NVMe storage (558 GiB)'],
])('judgeStorage: a managed node with %i GiB, whose pool also has a type with less NVMe', (storageGiB, part) => {
  const mechanism = 'managed-node-group';
  const pool = completePool({ name: 'gpu', mechanism, instanceTypes: ['g5.xlarge', 'g5.4xlarge'], diskGiB: 300 });
  const found = judgeStorage({ name: 'node', instanceType: 'g5.4xlarge', storageGiB }, pool);
  expect(found).toMatchObject({ level: 'ok', found: expect.stringContaining(part) as string });
});

const NOW = new Date('2026-11-26T12:00:00Z');
const minutesAgo = (minutes: number): Date => new Date(NOW.getTime() - minutes * 60_000);
const NODE: GpuNode = {
  name: 'node',
  pool: 'gpu',
  instanceType: 'g5.xlarge',
  createdAt: minutesAgo(60),
  ready: true,
  reason: undefined,
  gpus: 1,
  storageGiB: 228,
  driver: undefined,
};

/** Columns: name, nodes, replicas and slices of the stack, the finding as "level text". */
test.each<[string, Partial<GpuNode>[], { replicas?: number; timeSlices?: number }, string]>([
  ['one node', [{}], {}, 'ok node (g5.xlarge) is Ready, with 1 GPU'],
  ['a shared GPU', [{ gpus: 4 }], { timeSlices: 4 }, 'ok node (g5.xlarge) is Ready, with 4 GPUs or slices'],
  ['four GPUs', [{ gpus: 4 }], {}, 'ok node (g5.xlarge) is Ready, with 4 GPUs'],
  ['no node', [], {}, 'error there is no node of gpu'],
  ['no node for no replicas', [], { replicas: 0 }, 'ok no node is needed for 0 replicas'],
  ['a node of another pool', [{}, { pool: 'other', ready: false }], {}, 'ok node (g5.xlarge) is Ready, with 1 GPU'],
  ['only nodes of other pools', [{ pool: 'other' }, { pool: undefined }], {}, 'error there is no node of gpu'],
  ['an old node', [{ ready: false }], {}, 'error node (g5.xlarge) is not Ready: no reason'],
  [
    'an old node without GPUs',
    [{ gpus: 0 }],
    {},
    'error node (g5.xlarge) is Ready, but has no GPU that pods can request',
  ],
  [
    'a new node',
    [{ ready: false, reason: 'cni', createdAt: minutesAgo(9) }],
    {},
    'warning node (g5.xlarge) is not Ready: cni; it is younger than 10 minutes',
  ],
  [
    'a new node without GPUs',
    [{ gpus: 0, createdAt: minutesAgo(9) }],
    {},
    'warning node (g5.xlarge) is Ready, but has no GPU that pods can request; it is younger than 10 minutes',
  ],
])('nodesCheck: %s', async (_, nodes, { replicas = 1, timeSlices = 1 }, line) => {
  const mechanism = 'managed-node-group';
  const pool = completePool({ name: 'gpu', mechanism, instanceTypes: ['g5.xlarge'], timeSlices });
  const found = await nodesCheck.run({
    cluster: { nodes: () => Promise.resolve(nodes.map((node) => ({ ...NODE, ...node }))) },
    settings: { gpuNodePools: [pool], triton: { replicas, gpusPerPod: 1 } },
    today: NOW,
  } as unknown as AfterUpContext);
  expect(found.map((finding) => `${finding.level} ${finding.found}`)).toEqual([line]);
});

test('describeNodes leaves out nodes that are being deleted', () => {
  const metadata = { name: 'node', labels: { 'triton-serving/gpu-pool': 'gpu' }, creationTimestamp: minutesAgo(1) };
  const drained = { metadata: { ...metadata, deletionTimestamp: NOW } };
  const expected = { name: 'node', pool: 'gpu', createdAt: minutesAgo(1), ready: false };
  expect(describeNodes([drained, { metadata }])).toMatchObject([expected]);
});

const tagged = (tag: string): string => `nvcr.io/nvidia/tritonserver:${tag}`;
const FINE = 'NVIDIA Release 26.11 (build 1)';

test.each([
  ['26.11-py3', '570.1', '', 'warning'],
  ['25.08-py3', '570.1', '', 'warning'],
  ['25.12-py3', '570.1', '', 'warning'],
  ['25.07-py3', '570.1', '', 'ok'],
  ['26.11-py3-0123456789ab', '570.1', '', 'warning'],
  ['26.11-py3', '580.1', '', 'ok'],
  ['26.11-py3', '570.1', FINE, 'ok'],
])('judgeDriver: image %s, driver %s in the labels, log %j', (tag, driver, log, level) => {
  expect(judgeDriver({ name: 'node', driver }, { image: tagged(tag), log }).level).toBe(level);
});

test('driverCheck leaves out nodes of other pools', async () => {
  const found = await driverCheck.run({
    cluster: { nodes: () => Promise.resolve([{ ...NODE, pool: 'other' }]), replicas: () => Promise.resolve([]) },
    settings: { gpuNodePools: [], triton: { gpusPerPod: 1 } },
  } as unknown as AfterUpContext);
  expect(found).toMatchObject([{ level: 'ok', found: 'not checked: there are no nodes' }]);
});

test.each<[string | undefined]>([['m7i.large'], [undefined]])(
  'judgeStorage does not judge a node of type %s',
  (instanceType) => {
    const pool = completePool({ name: 'gpu', mechanism: 'auto-mode', instanceTypes: ['g5.xlarge'] });
    expect(judgeStorage({ name: 'node', instanceType, storageGiB: 10 }, pool).level).toBe('ok');
  },
);

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

const INTERNAL = { kind: 'internal-load-balancer' };
const ALB = { kind: 'ingress', tls: { kind: 'acm' } };
const NGINX = { kind: 'ingress', tls: { kind: 'secret' } };

/** Columns: exposure, replicas, address, states of the targets, the level and a part of the finding. */
test.each<[{ kind: string }, number, string, string[] | undefined, string, string]>([
  [INTERNAL, 1, 'lb', ['healthy'], 'ok', '1 of 1 targets are healthy'],
  [INTERNAL, 1, 'lb', ['healthy', 'initial'], 'ok', '1 of 2 targets are healthy'],
  [ALB, 1, 'lb', ['healthy', 'unhealthy'], 'warning', '1 of 2 targets are healthy: 1 is unhealthy (Why)'],
  [ALB, 1, 'lb', ['unhealthy', 'initial'], 'error', '0 of 2 targets are healthy: 0 is unhealthy (Why)'],
  [ALB, 1, 'lb', ['unused', 'unused'], 'error', '0 is unused (Why), 1 is unused (Why)'],
  [ALB, 1, 'lb', ['initial'], 'warning', 'no target is healthy yet: 0 is initial (Why)'],
  [ALB, 1, 'lb', [], 'error', 'has no targets'],
  [ALB, 0, 'lb', [], 'ok', 'needs no targets for 0 replicas'],
  [ALB, 1, 'lb', undefined, 'warning', 'is not the address of a load balancer'],
  [NGINX, 1, 'lb', ['unhealthy'], 'ok', 'belongs to another controller'],
  [INTERNAL, 1, '10.0.0.1', undefined, 'ok', 'load balancers of AWS have host names'],
])(
  'targetsCheck: %j with %i replicas at %s, whose targets are %j',
  async (exposure, replicas, host, states, level, part) => {
    const targets = states?.map((state, i) => ({ address: String(i), state, reason: 'Why' }));
    const found = await targetsCheck.run({
      account: { balancerTargets: () => Promise.resolve(targets) },
      cluster: { loadBalancers: () => Promise.resolve([host]) },
      settings: { triton: { exposure, replicas } },
    } as unknown as AfterUpContext);
    expect(found).toMatchObject([{ level, found: expect.stringContaining(part) as string }]);
  },
);

test('every check after an update has its own name', () => {
  expect(new Set(AFTER_UP_CHECKS.map(({ name }) => name)).size).toBe(AFTER_UP_CHECKS.length);
});
