import { readSettings } from '../../../infra/settings';
import { warningsOf } from '../../../infra/warnings';
import { configOf } from '../../support/registered-stack';

const TODAY = new Date('2026-06-01');
const of = (values: Record<string, unknown>, stack = 'staging', today = TODAY): string[] =>
  warningsOf(readSettings(configOf(stack, values)), today);

const OWN = { publicAccessCidrs: ['10.9.8.0/24'], publisherSubjects: ['repo:acme/serving:environment:staging'] };

test("nothing is said of a stack that was made one's own", () => {
  expect(of(OWN)).toEqual([]);
});

test('examples that were left in', () => {
  expect(of({ publicAccessCidrs: ['203.0.113.0/24'] })).toEqual([
    'publicAccessCidrs has 203.0.113.0/24, which is an example: set it to the addresses that you run pulumi from',
    'publisherSubjects names -your-organisation-, which is an example: nobody can publish with the role',
  ]);
});

test.each(['staging', 'prod'])(
  '%s as it comes: nobody reaches the cluster from elsewhere, and how one does',
  (stack) => {
    expect(of({}, stack)).toEqual([
      expect.stringMatching(
        /^publicAccessCidrs is empty: only from .* pulumi config set --path "publicAccessCidrs\[0\]"/,
      ),
      expect.stringMatching(/^publisherSubjects names/),
    ]);
    // In a network that was there somebody may be.
    const there = { vpcId: 'vpc-0a', privateSubnetIds: ['subnet-0a', 'subnet-0b'] };
    expect(of({ ...OWN, ...there, publicAccessCidrs: [] })).toEqual([]);
  },
);

test('managed groups that may grow, and that nothing makes grow', () => {
  const pool = { name: 'fixed', mechanism: 'managed-node-group', instanceTypes: ['g5.xlarge'] };
  expect(of({ ...OWN, gpuNodePools: [pool, { ...pool, name: 'full', minimumNodes: 2 }] })).toEqual([
    'pool fixed is made with 0 nodes, and nothing here ever adds any, up to 2 or otherwise: set minimumNodes to what is needed, or run an autoscaler of your own',
  ]);
});

test.each<[string, Record<string, unknown>, string | undefined]>([
  ['as many servers as GPUs', { replicas: 3 }, undefined],
  ['more servers than GPUs', { replicas: 4 }, 'replicas is 4, and the GPU node pools hold 3 at most (maximumGpus)'],
  ['servers that need no GPU', { replicas: 4, gpusPerPod: 0 }, undefined],
  ['no pools of our own', { replicas: 4, gpuNodePools: [] }, undefined],
  [
    'an autoscaler that may ask for more',
    { autoscaling: { kind: 'keda', minReplicas: 1, maxReplicas: 12 } },
    'autoscaling.maxReplicas is 12, and the GPU node pools hold 3 at most (maximumGpus)',
  ],
  [
    'machines of which half is left over',
    {
      replicas: 2,
      gpusPerPod: 3,
      gpuNodePools: [{ name: 'four', instanceTypes: ['g5.12xlarge'], maximumGpus: 6 }],
    },
    'replicas is 2, and the GPU node pools hold 1 at most (maximumGpus)',
  ],
  [
    'two pools of different kinds',
    {
      replicas: 6,
      gpuNodePools: [
        { name: 'nodes', instanceTypes: ['g5.xlarge'], maximumGpus: 1 },
        {
          name: 'group',
          mechanism: 'managed-node-group',
          instanceTypes: ['g5.xlarge'],
          capacityTypes: ['spot'],
          minimumNodes: 2,
          timeSlices: 2,
        },
      ],
    },
    'replicas is 6, and the GPU node pools hold 5 at most (maximumGpus and maximumNodes)',
  ],
])('%s', (_, values, warning) => {
  expect(of({ ...OWN, ...values })).toEqual(
    warning === undefined ? [] : [expect.stringContaining(`${warning}: the others would wait for a node. Raise `)],
  );
});

test('a version whose support ends', () => {
  expect(of(OWN, 'staging', new Date('2027-03-01'))).toEqual([expect.stringMatching(/ends on 2027-03-27/)]);
});

test("an existing cluster is its owner's business", () => {
  expect(of({ s3AccessKeyId: 'a', s3SecretAccessKey: 'b' }, 'local')).toEqual([]);
});
