import { estimateCost } from '../../../infra/cost';
import { GPU_INSTANCE_TYPES } from '../../../infra/gpu/gpu-instance-types';
import { readSettings } from '../../../infra/settings';
import { main } from '../../../scripts/cost';
import { getConfig } from '../../support/registered-stack';

type CostEstimate = ReturnType<typeof estimateCost>;

const estimate = (values: Record<string, unknown> = {}, stack = 'staging'): CostEstimate =>
  estimateCost(readSettings(getConfig(stack, values)));

const items = ({ items: all }: CostEstimate): Record<string, string> =>
  Object.fromEntries(all.map(({ item, basis, usdPerMonth }) => [item, `${usdPerMonth.toFixed(2)} (${basis})`]));

const POOL = { name: 'gpu', instanceTypes: ['g5.xlarge'] };

test('estimateCost lists every item of staging', () => {
  const found = estimate();
  // 730 hours of: 0.10; 0.05; two g5.xlarge at half of 1.006, and 7.8% of 1.006 each.
  expect(items(found)).toEqual({
    'EKS control plane': '73.00 (1 cluster)',
    'NAT gateways': '36.50 (1, each with a public address)',
    'KMS keys of the cluster': '2.00 (2 keys)',
    'model repository': '1.15 (50 GiB in S3)',
    'KMS key of the models': '1.00 (1 key)',
    'pool a10g': '734.38 (2 x g5.xlarge, spot at 50% of the on-demand price)',
    'pool a10g, fee of Auto Mode': '114.56 (7.8% of the on-demand price of 2 x g5.xlarge)',
    'pool a10g, disks': '41.20 (2 x 20 GiB with 600 MiB/s)',
  });
  expect(found.usdPerMonth).toBeCloseTo(1003.8, 1);
  // Three of the larger machine, on-demand, with fee and disk, instead of two of the smaller one, spot.
  const pool = Object.entries(items(found)).filter(([item]) => item.startsWith('pool '));
  const inPool = pool.reduce((sum, [, text]) => sum + parseFloat(text), 0);
  expect(found.limitUsdPerMonth).toBeCloseTo(found.usdPerMonth - inPool + 3 * (1.212 * 1.078 * 730 + 1.6 + 19), 1);
});

const ON_DEMAND = { ...POOL, capacityTypes: ['on-demand'] };
const FEE = 'pool gpu, fee of Auto Mode';

test.each<[string, Record<string, unknown>, Record<string, string | undefined>]>([
  [
    'the fewest replicas of autoscaling',
    { autoscaling: { minReplicas: 3, maxReplicas: 12 }, gpuNodePools: [ON_DEMAND], natGateways: 'per-zone' },
    { 'pool gpu': '2203.14 (3 x g5.xlarge, on-demand)', 'NAT gateways': '109.50 (3, each with a public address)' },
  ],
  // 0.08 for each GiB, 0.04 for each of 475 MiB/s.
  [
    'the size and throughput of disks that have images',
    {
      gpuNodePools: [
        { ...POOL, capacityTypes: ['spot'], nodes: 2, name: 'local', diskGiB: 150 },
        { ...POOL, capacityTypes: ['spot'], nodes: 2, name: 'ebs', diskGiB: 300 },
      ],
    },
    { 'pool local, disks': '6.40 (2 x 40 GiB)', 'pool ebs, disks': '86.00 (2 x 300 GiB with 600 MiB/s)' },
  ],
  [
    'replicas in the second pool when the first is full',
    {
      gpuNodePools: [
        { ...POOL, name: 'first', maximumGpus: 2 },
        { ...ON_DEMAND, name: 'second' },
      ],
      replicas: 3,
    },
    {
      'pool first': '734.38 (2 x g5.xlarge, spot at 50% of the on-demand price)',
      'pool second': '734.38 (1 x g5.xlarge, on-demand)',
    },
  ],
  [
    'all nodes of a managed node group, without the fee of Auto Mode',
    { gpuNodePools: [{ ...ON_DEMAND, nodes: 2 }], replicas: 1 },
    {
      'CoreDNS of managed groups': '164.83 (2 x m7i.large)',
      'pool gpu': '1468.76 (2 x g5.xlarge, on-demand)',
      [FEE]: undefined,
    },
  ],
  [
    'the fee of Auto Mode for G',
    { gpuNodePools: [{ ...ON_DEMAND, instanceTypes: ['g6.xlarge'] }], replicas: 1 },
    { [FEE]: `${(0.8048 * 0.078 * 730).toFixed(2)} (7.8% of the on-demand price of 1 x g6.xlarge)` },
  ],
  [
    'the lower fee of Auto Mode for P',
    { gpuNodePools: [{ ...ON_DEMAND, instanceTypes: ['p5.4xlarge'] }], replicas: 1 },
    { [FEE]: `${(6.88 * 0.048 * 730).toFixed(2)} (4.8% of the on-demand price of 1 x p5.4xlarge)` },
  ],
])('estimateCost counts %s', (_, values, expected) => {
  const found = items(estimate(values));
  expect(Object.fromEntries(Object.keys(expected).map((item) => [item, found[item]]))).toEqual(expected);
});

test.each<[note: string, values: Record<string, unknown>]>([
  [
    'Warning: replicas is 2, but the GPU node pools have room for 1 at most (maximumGpus), so the other replicas would stay pending. Raise maximumGpus, or lower replicas.',
    { gpuNodePools: [{ ...ON_DEMAND, maximumGpus: 1 }] },
  ],
  [
    'Assumption: spot instances cost 50% of the on-demand price, and these pools use spot instances only: gpu. AWS changes the price, and may have no spot instances.',
    { gpuNodePools: [{ ...POOL, capacityTypes: ['spot'] }] },
  ],
  [
    'Not included: g7e.2xlarge, whose prices this package does not know.',
    { gpuNodePools: [{ ...ON_DEMAND, instanceTypes: ['g5.xlarge', 'g7e.2xlarge'] }] },
  ],
])('estimateCost notes: %s', (note, values) => {
  const { notes } = estimate(values);
  const isNote = (text: string): boolean => /^(Warning|Assumption|Not included: \S+, whose)/.test(text);
  expect(notes.filter(isNote)).toEqual([note]);
});

// Staging has three zones. Karpenter packs the replicas of a zone on nodes with GPUs for several.
test.each<[gpusPerPod: number, replicas: number, pool: object, nodes: number]>([
  [2, 3, {}, 3],
  [2, 3, { maximumGpus: 8 }, 2],
  [2, 6, {}, 3],
  [1, 4, {}, 3],
  [1, 13, {}, 4],
  [1, 4, { zones: ['us-east-1a'] }, 1],
  [1, 0, {}, 0],
])(
  'estimateCost: for GPUs per pod %i, %i replicas and %j, nodes of the cheapest type: %i',
  (gpusPerPod, replicas, of, nodes) => {
    const instanceTypes = ['g5.48xlarge', 'g5.12xlarge', 'g5.24xlarge'];
    const pool = { ...ON_DEMAND, instanceTypes, maximumGpus: 64, ...of };
    expect(items(estimate({ gpuNodePools: [pool], gpusPerPod, replicas }))['pool gpu']).toBe(
      nodes === 0 ? undefined : `${(nodes * 5.672 * 730).toFixed(2)} (${nodes} x g5.12xlarge, on-demand)`,
    );
  },
);

test('estimateCost notes that the region has other prices', () => {
  const source = getConfig('staging', { availabilityZones: ['eu-central-1a', 'eu-central-1b'] });
  const { notes } = estimateCost(readSettings({ ...source, region: 'eu-central-1' }));
  expect(notes).toContain('Most prices in eu-central-1 are higher.');
});

test('prices increase with the size of an instance type', () => {
  const families = ['g4dn', 'g5', 'g6', 'g6e'];
  for (const family of families) {
    const oneGpu = ['xlarge', '2xlarge', '4xlarge', '8xlarge', '16xlarge'].map(
      (size) => GPU_INSTANCE_TYPES[`${family}.${size}` as keyof typeof GPU_INSTANCE_TYPES].usdPerHour,
    );
    expect([...oneGpu].sort((a, b) => a - b)).toEqual(oneGpu);
  }
});

describe('npm run cost', () => {
  let printed: string;
  let warned: string;
  beforeEach(() => {
    [printed, warned] = ['', ''];
    jest.spyOn(process.stdout, 'write').mockImplementation((text) => ((printed += String(text)), true));
    jest.spyOn(process.stderr, 'write').mockImplementation((text) => ((warned += String(text)), true));
  });
  afterEach(() => jest.restoreAllMocks());

  test('prints a table with the date of its prices', async () => {
    expect(await main(['staging'])).toBe(0);
    expect(printed).toMatch(/^Stack staging, cost of one month at the prices of 2026-08-17 in us-east-1:\n/);
    expect(printed).toMatch(/\nall +with the configured number of replicas +1003\.79\n/);
    expect(printed).toMatch(/\nall, upper bound +with every pool at its limit, at on-demand prices +3036\.76\n/);
  });

  test('lists the stacks of the folder if the stack or its file is missing', async () => {
    expect(await main([])).toBe(2);
    expect(warned).toContain('no stack is given');
    warned = '';
    expect(await main(['nosuch'])).toBe(1);
    expect(warned).toMatch(
      /Pulumi\.nosuch\.yaml does not exist\n {2}-> use a stack that has a stack file: local, prod, staging\n$/,
    );
    warned = '';
    expect(await main(['staging', '--stack-dir', '/nowhere'])).toBe(1);
    expect(warned).toMatch(/\/nowhere\/Pulumi\.staging\.yaml does not exist\n {2}-> set --stack-dir to the folder /);
  });

  test('prints the estimate as JSON with --json', async () => {
    expect(await main(['prod', '--json'])).toBe(0);
    const found = JSON.parse(printed) as CostEstimate;
    expect(found).toMatchObject({ stack: 'prod', pricesAsOf: '2026-08-17', pricesRegion: 'us-east-1' });
    expect(found.items.reduce((sum, { usdPerMonth }) => sum + usdPerMonth, 0)).toBeCloseTo(found.usdPerMonth);
  });
});
