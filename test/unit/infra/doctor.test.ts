import type { Aws, Quota } from '../../../infra/doctor/aws';
import { getQuota } from '../../../infra/doctor/check-gpus';
import { CHECKS } from '../../../infra/doctor/checks';
import { examine } from '../../../infra/doctor/doctor';
import { GPU_INSTANCE_TYPE_NAMES } from '../../../infra/gpu/gpu-instance-types';
import { readSettings } from '../../../infra/settings';
import { getConfig } from '../../support/registered-stack';

/** Levels of the findings of a check, and their texts. real/doctor.slow.test.ts runs the command. */
async function check(name: string, values: Record<string, unknown>, aws: Partial<Record<keyof Aws, unknown>>) {
  const settings = readSettings(getConfig('staging', values));
  const checks = CHECKS.filter((one) => one.name === name);
  const lines = await examine(checks, { settings, allowedAccounts: [], aws: aws as unknown as Aws });
  return { levels: lines.map(({ level }) => level).join(' '), found: lines.map((line) => line.found) };
}

test('an error of our own code ends the doctor', async () => {
  await expect(check('EKS version', {}, {})).rejects.toThrow(TypeError);
});

test.each([
  ['g5.xlarge', 'on-demand', 'L-DB2E81BA'],
  ['g6e.48xlarge', 'reserved', 'L-DB2E81BA'],
  ['g4dn.xlarge', 'spot', 'L-3819A6DF'],
  ['p4de.24xlarge', 'spot', 'L-7212CCBC'],
  ['p6-b200.48xlarge', 'on-demand', 'L-417A185B'],
  ['p6-b200.48xlarge', 'spot', undefined],
] as const)('%s as %s instance counts against the quota %s', (type, capacity, code) => {
  expect(getQuota(type, capacity)?.code).toBe(code);
});

test('every instance type that pools may use has a quota for on-demand instances', () => {
  expect(GPU_INSTANCE_TYPE_NAMES.filter((type) => getQuota(type, 'on-demand') === undefined)).toEqual([]);
});

const POOL = { name: 'a', instanceTypes: ['g5.xlarge', 'g5.12xlarge'], maximumGpus: 4 };
/** Quotas of spot and on-demand instances of G. */
const grant = (spot: number, onDemand: number) => ({
  quota: ({ code }: Quota) => Promise.resolve(code === 'L-3819A6DF' ? spot : code === 'L-DB2E81BA' ? onDemand : 0),
});

test('GPU quotas: adds up the pools, each with its most expensive type', async () => {
  const pools = [
    { ...POOL, maximumGpus: 8 },
    { name: 'b', instanceTypes: ['g6.xlarge'], maximumGpus: 2, capacityTypes: ['spot'] },
    { name: 'c', instanceTypes: ['p5.4xlarge'], maximumGpus: 3, capacityTypes: ['on-demand'] },
  ];
  const { found } = await check('GPU quotas', { gpuNodePools: pools }, grant(0, 0));
  // 8 of g5.xlarge have 32 vCPUs, 2 of g5.12xlarge have 96.
  expect(found.map((text) => /\((.*)\).* can request (\d+);/.exec(text)?.slice(1))).toEqual([
    ['L-3819A6DF', '104'],
    ['L-DB2E81BA', '96'],
    ['L-417A185B', '48'],
  ]);
});

test.each<[name: string, values: Record<string, unknown>, spot: number, onDemand: number, levels: string]>([
  ['enough for all', {}, 48, 48, 'ok ok'],
  ['one vCPU too few', {}, 47, 48, 'warning ok'],
  ['one replica of two', {}, 4, 0, 'error error'],
  ['one replica in each quota', {}, 4, 4, 'warning warning'],
  ['part of a node', {}, 3, 7, 'error error'],
  ['replicas that autoscaling may add', { autoscaling: { minReplicas: 2, maxReplicas: 4 } }, 8, 0, 'warning warning'],
  [
    'replicas with two GPUs, on one larger node',
    { gpusPerPod: 2, gpuNodePools: [{ ...POOL, instanceTypes: ['g5.12xlarge'] }] },
    48,
    0,
    'ok warning',
  ],
  [
    'spot instances whose quota has no known code',
    { gpuNodePools: [{ ...POOL, instanceTypes: ['p6-b200.48xlarge'], maximumGpus: 8 }] },
    0,
    0,
    'warning warning',
  ],
  ['replicas without GPUs', { gpusPerPod: 0 }, 0, 0, 'warning warning'],
  [
    'a type that is not known beside one that is',
    { gpuNodePools: [{ ...POOL, instanceTypes: ['g5.xlarge', 'g7e.2xlarge'] }] },
    0,
    16,
    'warning ok warning',
  ],
])('GPU quotas: %s', async (_, values, spot, onDemand, levels) => {
  expect((await check('GPU quotas', { gpuNodePools: [POOL], ...values }, grant(spot, onDemand))).levels).toBe(levels);
});

test.each<[types: string[], zones: string[], level: string, found: string]>([
  [['g5.xlarge', 'g6.xlarge'], [], 'ok', 'g5.xlarge in us-east-1a, us-east-1b; g6.xlarge in us-east-1b'],
  [['g6.xlarge'], [], 'warning', 'none of g6.xlarge in us-east-1a, so'],
  [['g6.xlarge'], ['us-east-1b'], 'ok', 'g6.xlarge in us-east-1b'],
  [['g6.xlarge'], ['us-east-1a'], 'error', 'none of g6.xlarge in us-east-1a'],
  [['g5.xlarge', 'p5.4xlarge'], [], 'warning', 'does not offer p5.4xlarge'],
])('GPU types: %j in the zones %j of the pool', async (instanceTypes, zones, level, found) => {
  const offers: Record<string, string[]> = { 'g5.xlarge': ['us-east-1a', 'us-east-1b'], 'g6.xlarge': ['us-east-1b'] };
  const values = {
    availabilityZones: ['us-east-1a', 'us-east-1b'],
    gpuNodePools: [{ ...POOL, instanceTypes, zones }],
  };
  const aws = { zonesOffering: () => Promise.resolve((type: string) => offers[type] ?? []) };
  expect(await check('GPU types', values, aws)).toEqual({
    levels: level,
    found: [expect.stringContaining(found) as string],
  });
});

const NAT = { NatGatewayId: 'nat-0' };

test.each<[name: string, subnet: object, route: object, levels: string]>([
  ['with a route to a gateway that was deleted', {}, { ...NAT, State: 'blackhole' }, 'error error'],
  ['with public addresses and an internet gateway', { MapPublicIpOnLaunch: true }, { GatewayId: 'igw-0' }, 'ok'],
])('subnets %s', async (_, changed, route, levels) => {
  const ids = ['subnet-0123456a', 'subnet-0123456b'];
  const common = { VpcId: 'vpc-01234567', AvailableIpAddressCount: 16 };
  const subnets = ids.map((SubnetId) => ({ SubnetId, ...common, ...changed }));
  const values = { availabilityZones: [], privateSubnetIds: ids };
  const aws = { subnets: () => Promise.resolve(subnets), defaultRoutes: () => Promise.resolve(() => route) };
  expect((await check('subnets', values, aws)).levels).toBe(levels);
});

test.each([
  ['tritonserver:26.11-py3', 'ok', 'Triton release 26.11 (2.75.0) has no known critical vulnerability'],
  ['tritonserver:26.10-py3', 'ok', 'Triton release 26.10 has no known critical vulnerability'],
  [
    'tritonserver:26.05-py3',
    'warning',
    'Triton release 26.05 (2.69.0) has CVE-2026-47627 (path traversal, CVSS 9.8), which acceptedVulnerabilities accepts',
  ],
  ['serving:1', 'ok', 'registry.example/serving:1 names no release of Triton, so its vulnerabilities are unknown'],
])('the release of %s is %s', async (name, level, text) => {
  const values = { image: `registry.example/${name}`, acceptedVulnerabilities: ['CVE-2026-47627'] };
  expect(await check('Triton release', values, {})).toMatchObject({ levels: level, found: [text] });
});
