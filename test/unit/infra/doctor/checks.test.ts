import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { GPU_INSTANCE_TYPE_NAMES } from '../../../../infra/gpu/gpu-instance-types';
import type { Certificate, DefaultRoute, Subnet } from '../../../../infra/doctor/account';
import { judgeCertificate } from '../../../../infra/doctor/check-certificate';
import { bucketCheck } from '../../../../infra/doctor/check-bucket';
import { stateCheck } from '../../../../infra/doctor/check-state';
import { isPrincipal, judgeCiRoles } from '../../../../infra/doctor/check-cluster';
import { driverCheck } from '../../../../infra/doctor/check-driver';
import { judgeVersion } from '../../../../infra/doctor/check-eks-version';
import { getDemands, getQuota, judgeOffers, judgeQuotas, quotasCheck } from '../../../../infra/doctor/check-gpus';
import { judgeRoom } from '../../../../infra/doctor/check-network';
import { judgeAddress } from '../../../../infra/doctor/check-own-address';
import { judgeSubjects } from '../../../../infra/doctor/check-publishers';
import { judgeSubnet } from '../../../../infra/doctor/check-subnets';
import { judgeSubnets, judgeZones } from '../../../../infra/doctor/check-zones';
import { manifestUrl, parseChallenge } from '../../../../infra/doctor/registry';
import { AFTER_UP_CHECKS } from '../../../../infra/doctor/after-up/checks';
import { CHECKS } from '../../../../infra/doctor/checks';
import { AFTER_UP_RIGHTS, doctorPolicy, RIGHTS } from '../../../../infra/doctor/rights';
import type { Context } from '../../../../infra/doctor/check';
import { readSettings } from '../../../../infra/settings';
import { S3Error } from '../../../../src/s3/store';
import { paths } from '../../../../src/core/paths';
import { getConfig } from '../../../support/registered-stack';
import { G7E, P3 } from '../settings-problems';

const settings = (values: Record<string, unknown> = {}) =>
  readSettings(getConfig('staging', { modelGpus: [], ...values }));
const levels = (found: readonly { level: string }[]): string => found.map(({ level }) => level).join(' ');

test.each([
  ['g5.xlarge', 'on-demand', 'L-DB2E81BA'],
  ['g6e.48xlarge', 'reserved', 'L-DB2E81BA'],
  ['g4dn.xlarge', 'spot', 'L-3819A6DF'],
  ['p4de.24xlarge', 'spot', 'L-7212CCBC'],
  ['p3.2xlarge', 'spot', 'L-7212CCBC'],
  ['p5en.48xlarge', 'spot', 'L-C4BD4855'],
  ['p6-b200.48xlarge', 'on-demand', 'L-417A185B'],
  ['p6-b200.48xlarge', 'reserved', 'L-417A185B'],
  ['p6-b200.48xlarge', 'spot', undefined],
] as const)('%s as %s instance counts against the quota %s', (type, capacity, code) => {
  expect(getQuota(type, capacity)?.code).toBe(code);
});

test('every instance type that pools may use has a quota for on-demand instances', () => {
  expect(GPU_INSTANCE_TYPE_NAMES.filter((type) => getQuota(type, 'on-demand') === undefined)).toEqual([]);
});

test.each([
  ['26.10', 'ok error'],
  ['25.06', 'ok'],
])('driverCheck of GPUs that only CUDA 12 supports, with the image %s', async (release, level) => {
  const values = {
    instanceTypeFacts: [P3],
    gpuNodePools: [{ name: 'v100', instanceTypes: [P3.name], maximumGpus: 1 }],
  };
  const image = `nvcr.io/nvidia/tritonserver:${release}-py3`;
  expect(levels(await driverCheck.run({ settings: settings({ ...values, image }) } as Context))).toBe(level);
});

test('getDemands adds up the pools, each with its most expensive type', () => {
  const pools = [
    { name: 'a', instanceTypes: ['g5.xlarge', 'g5.12xlarge'], maximumGpus: 8 },
    { name: 'b', instanceTypes: ['g6.xlarge'], maximumGpus: 2, capacityTypes: ['spot'] },
    { name: 'c', instanceTypes: ['p5.4xlarge'], maximumGpus: 3, capacityTypes: ['on-demand'] },
  ];
  const demands = getDemands(settings({ gpuNodePools: pools }));
  // 8 of g5.xlarge have 32 vCPUs, 2 of g5.12xlarge have 96.
  expect(demands.map(({ quota, most }) => [quota.code, most])).toEqual([
    ['L-3819A6DF', 96 + 8],
    ['L-DB2E81BA', 96],
    ['L-417A185B', 48],
  ]);
});

test('getDemands counts the group of each capacity type of a managed pool against one quota', () => {
  const group = { name: 'a', mechanism: 'managed-node-group', instanceTypes: ['g5.xlarge'], maximumNodes: 3 };
  const demands = getDemands(settings({ gpuNodePools: [{ ...group, capacityTypes: ['spot', 'on-demand'] }] }));
  expect(demands.map(({ quota, most }) => [quota.code, most])).toEqual([
    ['L-3819A6DF', 12],
    ['L-DB2E81BA', 12],
  ]);
});

test('getDemands counts the vCPUs of instanceTypeFacts', () => {
  const pool = { name: 'a', instanceTypes: [G7E.name], maximumGpus: 3 };
  const demands = getDemands(settings({ gpuNodePools: [pool], instanceTypeFacts: [G7E] }));
  expect(demands.map(({ quota, most }) => [quota.code, most])).toEqual([
    ['L-3819A6DF', 24],
    ['L-DB2E81BA', 24],
  ]);
});

const POOLS = [{ name: 'a', instanceTypes: ['g5.xlarge', 'g5.12xlarge'], maximumGpus: 4 }];

test.each<[name: string, values: Record<string, unknown>, spot: number, onDemand: number, levels: string]>([
  ['enough for all', {}, 48, 48, 'ok ok'],
  ['one vCPU too few', {}, 47, 48, 'warning ok'],
  ['none', {}, 0, 0, 'error error'],
  ['one replica of two', {}, 4, 0, 'error error'],
  ['one replica in each quota', {}, 4, 4, 'warning warning'],
  ['part of a node', {}, 3, 7, 'error error'],
  [
    'replicas that autoscaling may add',
    { autoscaling: { kind: 'keda', minReplicas: 2, maxReplicas: 4 } },
    8,
    0,
    'warning warning',
  ],
  [
    'replicas with two GPUs, on one larger node',
    { gpusPerPod: 2, gpuNodePools: [{ ...POOLS[0], instanceTypes: ['g5.12xlarge'] }] },
    48,
    0,
    'ok warning',
  ],
  ['replicas without GPUs', { gpusPerPod: 0 }, 0, 0, 'warning warning'],
])('judgeQuotas: %s', (_, values, spot, onDemand, expected) => {
  const stack = settings({ gpuNodePools: POOLS, ...values });
  const demands = getDemands(stack);
  expect(demands.map(({ quota }) => quota.code)).toEqual(['L-3819A6DF', 'L-DB2E81BA']);
  expect(levels(judgeQuotas(demands, [spot, onDemand], stack))).toBe(expected);
});

test.each<[name: string, certificate: Partial<Certificate>, expected: string, says: RegExp]>([
  ['for the host', {}, 'ok', /is issued for triton\.example\.com, until 2027-06-01/],
  ['for any host of the domain', { names: ['example.com', '*.Example.com'] }, 'ok', /is issued/],
  ['for hosts of a domain above', { names: ['*.com'] }, 'error', /is for \*\.com, so clients refuse it/],
  ['for the domain alone', { names: ['example.com'] }, 'error', /clients refuse it for triton\.example\.com/],
  ['that waits for DNS records', { status: 'PENDING_VALIDATION' }, 'error', /DomainValidationOptions/],
  ['whose validation took too long', { status: 'VALIDATION_TIMED_OUT' }, 'error', /VALIDATION_TIMED_OUT/],
  ['with another month', { until: new Date('2026-12-27') }, 'ok', /until 2026-12-27/],
  ['that ACM renews in time', { until: new Date('2026-12-26') }, 'warning', /its renewal is not under way/],
  ['whose renewal failed', { until: new Date('2026-12-01'), renewal: 'FAILED' }, 'warning', /its renewal is FAILED/],
  ['imported, soon old', { until: new Date('2026-12-01'), isRenewed: false }, 'warning', /import-certificate/],
  ['imported, too old', { until: new Date('2026-11-26'), isRenewed: false }, 'error', /expired on 2026-11-26/],
])('judgeCertificate: a certificate %s', (_, changed, expected, says) => {
  const valid: Certificate = {
    status: 'ISSUED',
    names: ['triton.example.com'],
    until: new Date('2027-06-01'),
    isRenewed: true,
    renewal: undefined,
  };
  const found = judgeCertificate('arn', { ...valid, ...changed }, 'triton.example.com', new Date('2026-11-27'));
  expect(levels(found)).toBe(expected);
  expect(`${found[0]?.found}\n${found[0]?.fix}`).toMatch(says);
});

test('quotas are no error if replicas may run within a quota that the doctor does not know', async () => {
  const spot = { name: 'b', instanceTypes: ['p6-b200.48xlarge'], capacityTypes: ['spot'] };
  const account = { quota: () => Promise.resolve(0) };
  const context = { settings: settings({ gpuNodePools: [...POOLS, spot] }), account } as unknown as Context;
  expect(levels(await quotasCheck.run(context))).toBe('warning warning warning');
});

test.each<[used: number, needed: number, level: string]>([
  [4, 1, 'ok'],
  [5, 1, 'error'],
  [2, 3, 'ok'],
  [3, 3, 'error'],
])('judgeRoom: %d of 5 in use, and %d needed', (used, needed, level) => {
  const quota = { service: 'vpc', code: 'L-F678F1CE', name: 'VPCs per Region' } as const;
  expect(judgeRoom(quota, { used, needed, limit: 5 }, 'us-east-1').level).toBe(level);
});

const OFFERED = new Map([
  ['g5.xlarge', new Set(['us-east-1a', 'us-east-1b'])],
  ['g6.xlarge', new Set(['us-east-1b'])],
  ['p5.4xlarge', new Set<string>()],
]);

test.each<[types: string[], ofPool: string[], zones: string[] | undefined, level: string, found: string]>([
  [['g5.xlarge'], [], ['us-east-1a', 'us-east-1b'], 'ok', 'g5.xlarge in us-east-1a, us-east-1b'],
  [['g5.xlarge'], [], undefined, 'ok', 'g5.xlarge in us-east-1a, us-east-1b'],
  [['g5.xlarge', 'g6.xlarge'], [], ['us-east-1a', 'us-east-1b'], 'ok', 'g6.xlarge in us-east-1b'],
  [['g6.xlarge'], [], ['us-east-1a', 'us-east-1b'], 'warning', 'none of g6.xlarge in us-east-1a'],
  [['g6.xlarge'], ['us-east-1b'], ['us-east-1a', 'us-east-1b'], 'ok', 'g6.xlarge in us-east-1b'],
  [['g5.xlarge', 'p5.4xlarge'], [], ['us-east-1a'], 'warning', 'does not offer p5.4xlarge in us-east-1a'],
  [['g6.xlarge'], [], ['us-east-1a'], 'error', 'none of g6.xlarge in us-east-1a'],
  [['p5.4xlarge'], [], undefined, 'error', 'none of p5.4xlarge in this region'],
])('judgeOffers: %j in the zones %j of %j', (instanceTypes, ofPool, zones, level, found) => {
  const pool = { name: 'a', instanceTypes: instanceTypes as ['g5.xlarge'], zones: ofPool };
  expect(judgeOffers(pool, OFFERED, zones)).toMatchObject({
    level,
    found: expect.stringContaining(found) as string,
  });
});

test.each<[names: string[], level: string]>([
  [['us-west-1a', 'us-west-1c'], 'ok'],
  [['us-west-1a', 'us-west-1b'], 'error'],
  [['us-west-1a', 'us-west-1d'], 'error'],
])('judgeZones of %j', (names, level) => {
  const existing = [
    { name: 'us-west-1a', id: 'usw1-az3' },
    { name: 'us-west-1b', id: 'usw1-az2' },
    { name: 'us-west-1c', id: 'usw1-az1' },
  ];
  expect(levels(judgeZones(names, existing, 'us-west-1'))).toBe(level);
});

const SUBNET: Subnet = {
  id: 'subnet-0',
  vpcId: 'vpc-1',
  zone: { name: 'ca-central-1a', id: 'cac1-az1' },
  freeAddresses: 16,
  givesPublicAddresses: false,
  tags: {},
};

test.each<[name: string, zoneIds: string[], level: string]>([
  ['two zones', ['cac1-az1', 'cac1-az2'], 'ok'],
  ['one zone', ['cac1-az1', 'cac1-az1'], 'error'],
  ['a zone that EKS refuses', ['cac1-az1', 'cac1-az3'], 'error'],
])('judgeSubnets: %s', (_, zoneIds, level) => {
  const subnets = zoneIds.map((id, i) => ({ ...SUBNET, id: `subnet-${i}`, zone: { name: id, id } }));
  const ids = subnets.map(({ id }) => id);
  expect(levels(judgeSubnets({ vpcId: 'vpc-1', privateSubnetIds: ids }, subnets))).toBe(level);
  expect(levels(judgeSubnets({ vpcId: 'vpc-2', privateSubnetIds: ids }, subnets))).toBe('error');
  expect(levels(judgeSubnets({ vpcId: 'vpc-1', privateSubnetIds: [...ids, 'subnet-9'] }, subnets))).toBe('error');
});

const NAT: DefaultRoute = { target: 'nat-0', isActive: true };

test.each<[name: string, subnet: Partial<Subnet>, route: DefaultRoute | undefined, needsTag: boolean, levels: string]>([
  ['a route to a NAT gateway', {}, NAT, false, ''],
  ['a route to a NAT gateway that was deleted', {}, { ...NAT, isActive: false }, false, 'error'],
  ['no route', {}, undefined, false, 'warning'],
  ['a route to an internet gateway', {}, { ...NAT, target: 'igw-0' }, false, 'error'],
  ['public addresses', { givesPublicAddresses: true }, { ...NAT, target: 'igw-0' }, false, ''],
  ['15 free addresses', { freeAddresses: 15 }, NAT, false, 'warning'],
  ['no tag for load balancers', {}, NAT, true, 'warning'],
  ['the tag for load balancers', { tags: { 'kubernetes.io/role/internal-elb': '1' } }, NAT, true, ''],
])('judgeSubnet: %s', (_, changed, route, needsTag, expected) => {
  expect(levels(judgeSubnet({ ...SUBNET, ...changed }, route, needsTag))).toBe(expected);
});

test.each<[support: 'standard' | 'extended' | 'none' | undefined, end: string | undefined, level: string]>([
  ['standard', undefined, 'ok'],
  ['standard', '2026-03-02', 'ok'],
  ['standard', '2026-03-01', 'warning'],
  ['extended', '2025-12-01', 'warning'],
  ['none', undefined, 'error'],
  [undefined, undefined, 'error'],
])('judgeVersion: support %s until %s, 60 days before 2026-03-02', (support, end, level) => {
  const standardSupportUntil = end === undefined ? undefined : new Date(end);
  const offered = support === undefined ? [] : [{ version: '1.35', support, standardSupportUntil }];
  expect(judgeVersion('1.35', offered, new Date('2026-01-01')).level).toBe(level);
});

test.each<[subjects: string[], levels: string]>([
  [['repo:acme@1/models@2:environment:prod'], 'ok'],
  [['repo:acme/models:environment:prod'], 'warning'],
  [['repo:acme@1/models:environment:prod'], 'warning'],
  [['repo:acme/models:environment:prod', 'repo:acme@1/models@2:environment:prod'], 'ok'],
  [['repo:acme/models:environment:prod', 'repo:acme@1/other@2:environment:prod'], 'warning'],
  [['repo:acme/models:environment:prod', 'repo:acme@1/models@2:ref:refs/heads/main'], 'warning'],
  [['repo:acme/models:environment:prod', 'repo:acme/models:ref:refs/heads/main'], 'warning'],
  [['repo:acme/models:environment:prod', 'repo:acme/other:environment:prod'], 'warning'],
  [['repo:-your-organisation-/triton-serving:environment:prod'], 'warning'],
  // A repository with a subject of its own form.
  [['repository_id:123'], 'ok'],
])('judgeSubjects of %j', (subjects, expected) => {
  const finding = judgeSubjects('prunerSubjects', 'https://token.actions.githubusercontent.com', subjects);
  expect(finding.level).toBe(expected);
  expect(finding.fix ?? 'set prunerSubjects').toContain('set prunerSubjects');
});

test.each<[entry: string, caller: string, is: boolean]>([
  ['arn:aws:iam::1:role/deploy', 'arn:aws:sts::1:assumed-role/deploy/session', true],
  ['arn:aws:iam::1:role/aws-reserved/sso.amazonaws.com/admin', 'arn:aws:sts::1:assumed-role/admin/me', true],
  ['arn:aws:iam::2:role/deploy', 'arn:aws:sts::1:assumed-role/deploy/session', false],
  ['arn:aws:iam::1:role/deploy2', 'arn:aws:sts::1:assumed-role/deploy/session', false],
  ['arn:aws:iam::1:user/me', 'arn:aws:iam::1:user/me', true],
  ['arn:aws:iam::1:user/you', 'arn:aws:iam::1:user/me', false],
])('isPrincipal: the entry of %s for %s', (entry, arn, is) => {
  expect(isPrincipal(entry, { arn, account: '1' })).toBe(is);
});

const CI_ARN = 'arn:aws:iam::1:role/ci-triton-staging-';
const PERSON = { account: '1', arn: 'arn:aws:iam::1:user/me' };
const CI = { account: '1', arn: 'arn:aws:sts::1:assumed-role/ci-triton-staging-deploy/ci' };
type CiRoles = Parameters<typeof judgeCiRoles>;

test.each<[name: string, roles: string[], rest: Partial<CiRoles[1] & CiRoles[1]['cluster']>, fixes: string[]]>([
  ['before a cluster', ['deploy', 'drift'], {}, ['clusterAdmins[0]', 'clusterViewers[0]']],
  ['before a cluster that CI creates', ['deploy'], { identity: CI }, []],
  ['before a cluster that people administer', ['deploy'], { admins: ['arn:aws:iam::1:role/people'] }, []],
  ['without their entries', ['deploy'], { admins: ['arn:aws:iam::1:role/people'], entries: [] }, ['clusterAdmins[1]']],
  ['with their entries', ['deploy', 'preview'], { entries: [`${CI_ARN}deploy`, `${CI_ARN}preview`] }, []],
  ['that are listed', ['deploy', 'drift'], { admins: [`${CI_ARN}deploy`], viewers: [`${CI_ARN}drift`] }, []],
  ['of which one is listed', ['drift', 'preview'], { viewers: [`${CI_ARN}drift`] }, ['clusterViewers[1]']],
  ['of which two are not', ['drift', 'preview'], {}, ['clusterViewers[0]', 'clusterViewers[1]']],
])('judgeCiRoles: roles %s', (_, roles, { admins = [], viewers = [], entries, identity = PERSON }, fixes) => {
  const found = judgeCiRoles(roles.map((role) => ({ role, arn: `${CI_ARN}${role}` })) as unknown as CiRoles[0], {
    cluster: { admins, viewers },
    stack: 'staging',
    entries,
    identity,
  });
  const warnings = found.filter(({ level }) => level !== 'ok');
  expect(warnings.map(({ fix }) => /--path '(.*)' arn/.exec(fix ?? '')?.[1])).toEqual(fixes);
});

test.each<[address: string, ranges: string[], level: string]>([
  ['203.0.113.7', ['203.0.113.7/32'], 'ok'],
  ['203.0.113.7', ['198.51.100.0/24', '203.0.113.0/24'], 'ok'],
  ['203.0.113.7', ['203.0.113.8/32'], 'warning'],
  ['203.0.113.7', ['203.0.112.0/24', '203.0.114.0/24'], 'warning'],
])('judgeAddress of %s in %j', (address, ranges, level) => {
  const found = judgeAddress(address, ranges, 'prod');
  expect(found.level).toBe(level);
  const fix = `pulumi config set --stack prod --path 'publicAccessCidrs[${ranges.length}]' ${address}/32`;
  expect(found.fix?.endsWith(fix) ?? true).toBe(true);
});

test.each([
  ['nvcr.io/nvidia/tritonserver:26.11-py3', 'https://nvcr.io/v2/nvidia/tritonserver/manifests/26.11-py3'],
  ['nvcr.io/nvidia/tritonserver:1@sha256:0a', 'https://nvcr.io/v2/nvidia/tritonserver/manifests/sha256:0a'],
  ['registry.acme.example:5000/a/b/c', 'https://registry.acme.example:5000/v2/a/b/c/manifests/latest'],
  ['node:22', 'https://registry-1.docker.io/v2/library/node/manifests/22'],
  ['acme/node:22', 'https://registry-1.docker.io/v2/acme/node/manifests/22'],
  ['docker.io/node:22', 'https://registry-1.docker.io/v2/library/node/manifests/22'],
  ['127.0.0.1:5000/a:1', 'http://127.0.0.1:5000/v2/a/manifests/1'],
  ['localhost:5000/a:1', 'http://localhost:5000/v2/a/manifests/1'],
  ['127.0.0.1.acme.example/a:1', 'https://127.0.0.1.acme.example/v2/a/manifests/1'],
])('manifestUrl of %s', (image, url) => {
  expect(manifestUrl(image)).toBe(url);
});

test.each([
  ['', {}],
  ['Basic realm="https://a.example/"', {}],
  [
    'Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull"',
    { realm: 'https://auth.example/token', service: 'registry.example', scope: 'repository:a/b:pull' },
  ],
  ['bearer Realm="https://a.example/?x=1", scope="a,b"', { realm: 'https://a.example/?x=1', scope: 'a,b' }],
])('parseChallenge of %s', (header, parameters) => {
  expect(parseChallenge(header)).toEqual(parameters);
});

test('the rights only read', () => {
  const verbs = [...RIGHTS, ...AFTER_UP_RIGHTS].map((right) => right.split(':')[1] ?? '');
  expect(verbs.filter((verb) => !/^(Describe|Get|List)/.test(verb))).toEqual([]);
});

test('docs/iam/doctor.json is the policy that --policy prints', () => {
  expect(JSON.parse(readFileSync(join(paths.root, 'docs/iam/doctor.json'), 'utf8'))).toEqual(doctorPolicy());
});

test('docs/infrastructure.md lists every check', () => {
  const [, section = ''] =
    /\n## The doctor\n(.*?)\n## /s.exec(readFileSync(join(paths.root, 'docs/infrastructure.md'), 'utf8')) ?? [];
  const listed = [...section.matchAll(/^\| ([A-Za-z ]+?) +\|/gm)].map(([, name]) => name).slice(1);
  const [before, after] = [CHECKS, AFTER_UP_CHECKS].map((checks) => checks.map(({ name }) => name));
  expect(listed).toEqual([...(before ?? []), 'check', ...(after ?? [])]);
});

describe('a bucket in another region', () => {
  const other = new S3Error('list it', 'https://s3', { code: 'PermanentRedirect', status: 301, region: 'eu-west-1' });
  const context = (region?: string) =>
    ({
      settings: settings({ bucketName: 'acme-models' }),
      state: { backend: { kind: 'bucket', bucket: 'acme-state', folder: '', region } },
      account: { listBucket: () => Promise.reject(other) },
    }) as unknown as Context;

  test('is an error for the models', async () => {
    expect(await bucketCheck.run(context())).toEqual([
      {
        level: 'error',
        found: 'acme-models is in eu-west-1, but the stack file has us-east-1',
        fix: 'correct bucketName, or: pulumi config set --stack staging bucketRegion eu-west-1',
      },
    ]);
  });

  test.each([
    ['us-east-1', 'error', /^the bucket of the state, acme-state, is in eu-west-1, but its URL has us-east-1$/],
    [undefined, 'warning', /is in eu-west-1, and its URL names no region$/],
  ] as const)('is reported for the state, whose URL has the region %s', async (region, level, found) => {
    const findings = await stateCheck.run(context(region));
    expect(levels(findings)).toBe(level);
    expect(findings[0]?.found).toMatch(found);
    expect(findings[0]?.fix).toMatch(/ s3:\/\/acme-state\?region=eu-west-1$/);
  });
});
