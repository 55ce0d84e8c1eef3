import { readSettings } from '../../../infra/settings';
import type { IdentityValues } from '../../../infra/settings/aws-identity';
import { getConfig, LOCAL_S3 } from '../../support/registered-stack';
import { POOL, getProblems } from './settings-problems';
import { NARROW_SUBJECTS, WIDE_SUBJECTS } from './subjects';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONFIG_FIELDS } from '../../../infra/settings/config';
import type { Fields } from '../../../infra/settings/fields';
import { paths } from '../../../src/core/paths';

const GATEWAYS =
  'NAT gateways of the created VPC, through which nodes pull images: one for all zones (cheaper), or one per zone (keeps working when a zone fails).';
const LOCAL = { s3: LOCAL_S3 };
const CI = 'arn:aws:iam::123456789012:role/ci';
const OIDC = 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/A';
const EXISTING = { existingCluster: { context: 'a', oidcProviderArn: OIDC }, gpuNodePools: [] };

afterEach(() => jest.restoreAllMocks());

describe('readSettings of the stacks in this repository', () => {
  test('accepts each stack file', () => {
    expect(getProblems({}, 'staging')).toEqual([]);
    expect(getProblems({}, 'prod')).toEqual([]);
    expect(getProblems(LOCAL, 'local')).toEqual([]);
  });

  test('fills in the defaults of a pool', () => {
    expect(readSettings(getConfig('staging', { gpuNodePools: [POOL] })).gpuNodePools).toEqual([
      {
        name: 'a10g',
        instanceTypes: ['g5.xlarge'],
        capacityTypes: ['spot', 'on-demand'],
        maximumGpus: 8,
        zones: [],
        labels: {},
        taints: [],
        diskGiB: 150,
        capacityReservationIds: [],
      },
    ]);
  });

  // An S3 API other than AWS's may use any names for regions.
  test.each([
    [undefined, 'us-east-1'],
    ['garage', 'garage'],
  ])('with aws:region %s, the stack local has the region %s', (region, expected) => {
    expect(readSettings({ ...getConfig('local', LOCAL), region }).region).toBe(expected);
  });
});

describe('readSettings reports', () => {
  test('all problems at once, with key, value, allowed values and next step', () => {
    expect(
      getProblems({
        natGateway: 'one',
        natGateways: 'two',
        oldVersionDays: 0,
        protect: 'yes',
        availabilityZones: 'us-east-1a',
        publicAccessCidrs: ['203.0.113.0/24', 'everywhere'],
        resources: { memory: 16 },
        gpuNodePools: [{ name: 'GPU', instanceTypes: ['g5.xlarge', 5], labels: { team: 1 } }],
      }),
    ).toEqual([
      'natGateway: unknown setting\n    -> did you mean natGateways?',
      'protect: is "yes"; allowed: true, false',
      'availabilityZones: is "us-east-1a"; allowed: a list of: a zone, "us-east-1a"\n    -> write it as a list: [us-east-1a]',
      `natGateways: is "two"; allowed: one, per-zone\n    -> ${GATEWAYS}`,
      'publicAccessCidrs[1]: is "everywhere"; allowed: an IPv4 range, "203.0.113.0/24"',
      'gpuNodePools[0].name: is "GPU"; allowed: at most 40 lower-case letters, digits and hyphens, beginning with a letter',
      'gpuNodePools[0].instanceTypes[1]: is 5; allowed: an x86-64 EC2 instance type of G or P with GPUs of NVIDIA, "g6.xlarge"',
      'gpuNodePools[0].labels: is a mapping; allowed: a mapping of text to text, with numbers, true and false in quotes',
      'oldVersionDays: is 0; allowed: a whole number from 1 to 3650',
      expect.stringMatching(/^resources\.memory: unknown setting; allowed: cpu, /),
    ]);
  });

  test('an image with critical vulnerabilities, each until it is accepted', () => {
    const image = 'mirror.example/tritonserver:26.02-py3';
    const problem = (id: string, kind: string, fixedIn: string, bulletin: number): string =>
      `image: is Triton 26.02, which has ${id} (${kind}, CVSS 9.8); allowed: ${fixedIn} or newer\n` +
      `    -> read https://nvidia.custhelp.com/app/answers/detail/a_id/${bulletin}, and set image to a newer release, or add ${id} to acceptedVulnerabilities`;
    const [traversal, bypass] = [
      problem('CVE-2026-47627', 'path traversal', '26.06', 5865),
      problem('CVE-2026-24207', 'authentication bypass', '26.03', 5828),
    ];
    expect(getProblems({ image })).toEqual([traversal, bypass]);
    expect(getProblems({ image, acceptedVulnerabilities: ['CVE-2026-47627'] })).toEqual([bypass]);
    expect(getProblems({ image, acceptedVulnerabilities: ['CVE-2026-24207', 'CVE-2026-47627'] })).toEqual([]);
    expect(getProblems({ image: image.replace('26.02', '26.06') })).toEqual([]);
    expect(getProblems({ acceptedVulnerabilities: ['cve-2026-1'] })).toEqual([
      'acceptedVulnerabilities[0]: is "cve-2026-1"; allowed: an id, "CVE-2026-24207"',
    ]);
  });

  const NARROWER = 'list the addresses of your administrators and CI; an empty list allows the VPC only';
  const PUBLIC =
    'list the addresses that your administrators and CI have on the internet; an empty list allows the VPC only';

  test.each<[range: string, fault?: string, hint?: string]>([
    ['0.0.0.0/0', 'it contains every address', NARROWER],
    ['128.0.0.0/1', 'it has more than 16 million addresses', NARROWER],
    ['203.0.113.7', 'an address, not a range', 'write 203.0.113.7/32 for this address'],
    [
      '203.0.113.7/24',
      'not the first address of its range',
      'write 203.0.113.0/24 for the range, or 203.0.113.7/32 for this address',
    ],
    ['10.0.0.0/16', 'EKS refuses private addresses', PUBLIC],
    ['172.31.0.0/16', 'EKS refuses private addresses', PUBLIC],
    // Some programs read numbers with leading zeros as octal numbers.
    ...['10.0.0.0/16x', 'x10.0.0.0/16', '10.0.0.256/32', '10.0.0.0/33', '010.0.0.0/8', '10.0.0.0/08', '0.0.0.0/00'].map(
      (range): [string] => [range],
    ),
  ])('publicAccessCidrs with %s: %s', (...[range, fault, hint]) => {
    const reason = fault === undefined ? '' : `: ${fault}`;
    const next = hint === undefined ? '' : `\n    -> ${hint}`;
    expect(getProblems({ publicAccessCidrs: [range] })).toEqual([
      `publicAccessCidrs[0]: is "${range}"${reason}; allowed: an IPv4 range, "203.0.113.0/24"${next}`,
    ]);
  });

  test.each<[object, ...string[]]>([
    [
      // Values are compared only if each is valid by itself, but names are checked always.
      { replica: 3, privateSubnetIds: ['subnet-0a'], gpuNodePools: [] },
      'replica: unknown setting\n    -> did you mean replicas?',
      'privateSubnetIds: has 1 subnet; allowed: none, or at least two in different zones\n' +
        '    -> list the private subnets of the VPC',
    ],
    [
      { availabilityZones: ['us-east-1a', 'eu-west-1b'] },
      'availabilityZones: has eu-west-1b, but aws:region is us-east-1; allowed: zones of us-east-1, "us-east-1a"',
    ],
    [{ clusterAdmins: [CI, CI] }, `clusterAdmins[1]: repeats "${CI}"; allowed: each value once`],
    [
      { tritonImage: 'a:1', s3Endpoint: 'http://s3:9000', nodeSelector: {}, Qqq: 1, zzz: 1, toString: 1 },
      'tritonImage: unknown setting\n    -> did you mean image?',
      's3Endpoint: unknown setting\n    -> did you mean s3.endpoint?',
      'nodeSelector: unknown setting\n    -> did you mean pod.nodeSelector?',
      expect.stringMatching(/^Qqq: unknown setting; allowed: protect, logDays, .* and \d+ more$/),
      'zzz: unknown setting',
      'toString: unknown setting',
    ],
    [{ natGateways: 'none' }, `natGateways: is "none"; allowed: one, per-zone\n    -> did you mean "one"? ${GATEWAYS}`],
    [{ replicas: '1e3' }, 'replicas: is "1e3"; allowed: a whole number from 0 to 1000'],
    [
      { publisherSubjects: [], publisherIssuer: 'https://gitlab.example.com' },
      'publisherIssuer: has no effect, because publisherSubjects is empty\n    -> set publisherSubjects too, or remove it',
    ],
    [
      { ...EXISTING, clusterAdmins: [CI], publicAccessCidrs: ['203.0.113.0/24'], kubernetesVersion: '1.35' },
      ...['kubernetesVersion', 'clusterAdmins', 'publicAccessCidrs'].map(
        (name) => `${name}: has no effect, because the cluster exists already\n    -> remove it`,
      ),
    ],
    [
      { exposure: { clientCidrs: ['10.0.0.0/16'], scheme: 'internet-facing' } },
      'exposure.clientCidrs: has no effect, because exposure.kind is cluster\n' +
        '    -> set exposure.kind to internal-load-balancer or ingress, or remove clientCidrs',
      'exposure.scheme: has no effect, because exposure.kind is cluster\n    -> set exposure.kind to ingress, or remove scheme',
    ],
    [
      { modelRepository: 's3://models/models.releases' },
      'modelRepository: is "s3://models/models.releases": this prefix is reserved, because the publisher stores the releases of a repository under it; ' +
        'allowed: "s3://BUCKET/PREFIX"\n    -> the repository is s3://models/models',
    ],
    [
      { gpuNodePools: POOL },
      expect.stringMatching(
        /^gpuNodePools: is a mapping; allowed: a list, .*\n {4}-> write it as a list: put "- " before its first key$/,
      ),
    ],
    [
      { gpuNodePools: [POOL, POOL] },
      expect.stringMatching(/^gpuNodePools\[1\]\.name: is "a10g", like that of another/),
    ],
    [
      {
        privateSubnetIds: ['subnet-0a', 'subnet-0b'],
        exposure: { kind: 'internal-load-balancer', clientCidrs: ['10.0.0.0/8'] },
      },
      'exposure.controllerCidrs: is empty; ' +
        'allowed: the IP ranges of the load balancer or ingress controller, ["10.0.0.0/16"]',
    ],
    [
      { clusterAdmins: [CI], clusterViewers: [CI] },
      `clusterViewers: has ${CI}, which clusterAdmins has too\n` +
        '    -> remove it from one of them, because a cluster has one access entry for a role',
    ],
    [
      { clusterAdmins: ['arn:aws:iam::123456789012:role/*', 'arn:aws:iam::123456789012:root'] },
      'clusterAdmins[0]: is "arn:aws:iam::123456789012:role/*"; allowed: the ARN of an IAM role or user',
      'clusterAdmins[1]: is "arn:aws:iam::123456789012:root"; allowed: the ARN of an IAM role or user',
    ],
    [
      { modelRepository: 's3://models/models', bucketKmsKeyArn: 'arn:aws:kms:us-east-1:123456789012:alias/models' },
      'bucketKmsKeyArn: is "arn:aws:kms:us-east-1:123456789012:alias/models"; ' +
        'allowed: the ARN of a KMS key, not of an alias',
    ],
    [
      { gpuNodePools: [{ name: 'a', instanceTypes: ['g5g.2xlarge', 'p6e-gb200.36xlarge', 'g4ad.2xlarge'] }] },
      ...['g5g.2xlarge', 'p6e-gb200.36xlarge', 'g4ad.2xlarge'].map(
        (name, i) =>
          `gpuNodePools[0].instanceTypes[${i}]: is "${name}"; allowed: an x86-64 EC2 instance type of G or P with GPUs of NVIDIA, "g6.xlarge"`,
      ),
    ],
    [
      { availabilityZones: ['us-east-1a'] },
      'availabilityZones: has 1 different zones; allowed: from 2 to 6, each once\n' +
        '    -> "aws ec2 describe-availability-zones" lists the zones of the region',
    ],
    [
      { kubernetesVersion: '1.33' },
      'kubernetesVersion: is "1.33": too old; allowed: a version of EKS from 1.34, "1.36"',
    ],
    [
      { availabilityZones: ['us-east-1a', 'us-east-1h'] },
      'availabilityZones[1]: is "us-east-1h"; allowed: a zone, "us-east-1a"',
    ],
    ...['10.0.0.0/8', '10.0.0.0/24'].map((vpcCidr): [object, string] => [
      { vpcCidr },
      `vpcCidr: is ${vpcCidr}: not a size that a VPC can have; allowed: from /16 to /20, "10.0.0.0/16"`,
    ]),
    [{ logDays: 13 }, expect.stringMatching(/^logDays: is 13; allowed: 1, 3, 5, 7, 14, /)],
    [
      { modelRepository: 's3://models/models', s3: { endpoint: 'http://s3:9000', accessKeyId: 'key' } },
      's3.secretAccessKey: is missing; allowed: text\n    -> Secret of the access key.',
    ],
    [
      { s3: LOCAL_S3, bucketKmsKeyArn: 'arn:aws:kms:us-east-1:123456789012:key/a', publisherSubjects: [] },
      ...['bucketKmsKeyArn', 's3'].map(
        (name) =>
          `${name}: has no effect, because modelRepository is empty, so a bucket is created\n` +
          '    -> set modelRepository to the place in the existing bucket, or remove it',
      ),
    ],
    [
      { publisherSubjects: [], prunerSubjects: ['repo:acme/serving:environment:prune'] },
      'prunerSubjects: has no effect, because publisherSubjects is empty\n    -> set publisherSubjects too, or remove it',
    ],
    [
      { modelRepository: 's3://models/models', bucketReaders: [CI] },
      'bucketReaders: has no effect, because the policy of the existing bucket in modelRepository is not changed\n' +
        '    -> remove it, and allow the roles in the policies of that bucket and its key',
    ],
    [
      { bucketReaders: ['arn:aws:iam::111122223333:role/*'] },
      expect.stringMatching(
        /^bucketReaders\[0\]: is "arn:aws:iam::111122223333:role\/\*"; allowed: the ARN of an IAM role/,
      ),
    ],
  ])('what is wrong with %j', (values, ...said) => {
    expect(getProblems({ ...values })).toEqual(said);
  });

  test('a secret that is not encrypted, without its value', () => {
    const encrypted = new Set(['existingCluster']);
    expect(getProblems({ s3: { ...LOCAL_S3, secretAccessKey: 'hidden-1' } }, 'local', { encrypted })).toEqual([
      's3.accessKeyId: is not encrypted\n    -> pulumi config set --secret --path s3.accessKeyId',
      's3.secretAccessKey: is not encrypted\n    -> pulumi config set --secret --path s3.secretAccessKey',
    ]);
    expect(getProblems({ existingCluster: 'users: [hidden-2]' }, 'local')).toEqual([
      'existingCluster: is a value that is not shown; allowed: a mapping with kubeconfig, context, identifier, oidcProviderArn',
    ]);
  });

  test('an encrypted setting that would not stay encrypted', () => {
    const encrypted = new Set(['extraArguments', 'replicas', 'environment']);
    const values = { extraArguments: ['--log-verbose=1'], replicas: 2 };
    const said =
      'is encrypted, but the state and the resources of the stack contain this setting in plain text\n' +
      '    -> set it without --secret if it is not secret; only existingCluster.kubeconfig, s3.accessKeyId, s3.secretAccessKey, ' +
      'environment stay encrypted';
    const found = getProblems({ ...values, environment: { TOKEN: 'hidden' } }, 'staging', { encrypted });
    expect(found.sort()).toEqual([`extraArguments: ${said}`, `replicas: ${said}`]);
  });

  test.each(WIDE_SUBJECTS)('the wide subject %s', (subject) => {
    const fault =
      `is ${JSON.stringify(subject)}: a subject has no *, ? and $, and one of GitHub names a repository; allowed: ` +
      'the subject of a token, "repo:OWNER@ID/NAME@ID:environment:prod" or "repo:OWNER/NAME:environment:prod"';
    expect(getProblems({ publisherSubjects: [subject] })).toEqual([`publisherSubjects[0]: ${fault}`]);
    expect(getProblems({ prunerSubjects: [subject] })).toEqual([`prunerSubjects[0]: ${fault}`]);
  });

  test.each(NARROW_SUBJECTS)('nothing for the narrow subject %s', (subject) => {
    expect(getProblems({ publisherSubjects: [subject] })).toEqual([]);
  });

  test.each<[string | undefined, string[]]>([
    ['us-east1', ['aws:region: is "us-east1"; allowed: an AWS region, "us-east-1"']],
    ['us-east-1a', ['aws:region: is "us-east-1a"; allowed: an AWS region, "us-east-1"']],
    ['virginia', ['aws:region: is "virginia"; allowed: an AWS region, "us-east-1"']],
    ['us-east-1', []],
    [
      undefined,
      ['aws:region: is missing; allowed: an AWS region, "us-east-1"\n    -> pulumi config set aws:region us-west-2'],
    ],
  ])('an invalid region: %s', (region, said) => {
    jest.replaceProperty(process, 'env', { ...process.env, AWS_REGION: 'us-west-2' });
    expect(getProblems({}, 'staging', { region })).toEqual(said);
  });

  test.each(['eu-central-1', 'us-gov-west-1', 'cn-north-1', 'ap-southeast-7', 'eusc-de-east-1', 'us-iso-east-1'])(
    'nothing for a network in %s',
    (region) => {
      const availabilityZones = ['a', 'b'].map((letter) => `${region}${letter}`);
      expect(getProblems({ availabilityZones }, 'staging', { region })).toEqual([]);
    },
  );

  test.each<[IdentityValues, string[]]>([
    [{}, []],
    [{ profile: 'ops', assumeRoles: [{ roleArn: 'arn:aws:iam::111122223333:role/deploy', sessionName: 'ci' }] }, []],
    [{ assumeRoles: [{ roleArn: 'a' }, { roleArn: 'b' }] }, ['aws:assumeRoles']],
    [{ assumeRoles: [{ roleArn: 'a', externalId: 'x' }] }, ['aws:assumeRoles']],
    [{ assumeRoleWithWebIdentity: { roleArn: 'a' } }, ['aws:assumeRoleWithWebIdentity']],
  ])('an identity with which the kubeconfig cannot sign in: %j', (identity, keys) => {
    expect(getProblems({}, 'staging', { identity })).toEqual(
      keys.map(
        (key) =>
          `${key}: is an identity with which "aws eks get-token" cannot sign in to the cluster; ` +
          'allowed: aws:assumeRoles with one item, without externalId\n' +
          '    -> describe the roles in a profile of ~/.aws/config, and set aws:profile to its name',
      ),
    );
  });

  test('the text of a kubeconfig that is not encrypted, but no path', () => {
    const of = (kubeconfig: string): string[] =>
      getProblems({ ...LOCAL, existingCluster: { kubeconfig } }, 'local', { encrypted: new Set(['s3']) });
    expect(of('~/kc.yaml')).toEqual([]);
    for (const text of ['{"users": []}', 'users:\n- token: hidden\n']) {
      expect(of(text)).toEqual([
        'existingCluster.kubeconfig: is not encrypted\n    -> pulumi config set --secret --path existingCluster.kubeconfig',
      ]);
    }
  });

  test('an existing cluster without a context and without access to the bucket', () => {
    const values = { existingCluster: { kubeconfig: '' }, modelRepository: '' };
    expect(getProblems(values, 'local').map((text) => text.split(': ')[0])).toEqual([
      'existingCluster.context',
      'existingCluster.oidcProviderArn',
      'aws:region',
    ]);
  });
});

test.each(['prod.eu', 'Prod', 'my_stack', 'a'.repeat(28)])('readSettings rejects the name %s of a stack', (stack) => {
  expect(getProblems({}, 'staging', { stack })).toEqual([
    expect.stringContaining(`the name of the stack is "${stack}", and names of resources in AWS contain it; allowed: `),
  ]);
  expect(getProblems(LOCAL, 'local', { stack })).toEqual([]);
});

const BOTH = /budgets\[0\]: is incomplete; allowed: both schedule and duration, or neither$/;

describe('readSettings rejects GPU node pools', () => {
  test.each<[Record<string, unknown>, RegExp]>([
    [{ instanceTypes: [] }, /instanceTypes: is empty; allowed: one or more of g4dn/],
    [{ capacityTypes: [] }, /capacityTypes: is empty; allowed: one or more of reserved, spot, on-demand$/],
    [{ capacityTypes: ['spot', 'on-demand', 'spot'] }, /capacityTypes\[2\]: repeats "spot"; allowed: each value once$/],
    [
      { instanceTypes: ['g5.12xlarge'], maximumGpus: 3 },
      /maximumGpus: is 3; allowed: at least 4, the number of GPUs of one node$/,
    ],
    [{ diskGiB: 50 }, /diskGiB: is 50; allowed: at least 60: 40 for the system/],
    [{ zones: ['us-east-1f'] }, /zones: has us-east-1f; allowed: us-east-1a, us-east-1b, us-east-1c$/],
    [
      { capacityTypes: ['reserved'] },
      /capacityReservationIds: is empty; allowed: both the capacity type reserved and capacityReservationIds/,
    ],
    [{ capacityReservationIds: ['cr-0a'] }, /capacityTypes: lacks reserved/],
    [
      { nodes: 2, capacityTypes: ['reserved'] },
      /capacityTypes: is reserved; allowed: one of spot, on-demand, because a managed node group has one of them/,
    ],
    [{ nodes: 2 }, /capacityTypes: is spot, on-demand; allowed: one of spot/],
    ...Object.entries({ disruption: { expireAfter: '24h' }, maximumGpus: 4, capacityReservationIds: ['cr-0a'] }).map(
      ([name, value]): [Record<string, unknown>, RegExp] => [
        { nodes: 2, capacityTypes: ['spot'], [name]: value },
        new RegExp(`${name}: has no effect, because a managed node group has a fixed number of nodes`),
      ],
    ),
    [{ disruption: { budgets: [{ nodes: '0', schedule: '0 6 * * *' }] } }, BOTH],
    [{ disruption: { budgets: [{ nodes: '0', duration: '8h' }] } }, BOTH],
    ...[
      'kubernetes.io/hostname',
      'node.kubernetes.io/team',
      'karpenter.sh/nodepool',
      'eks.amazonaws.com/nodegroup',
      'triton-serving/gpu',
      'a b',
    ].map((label): [Record<string, unknown>, RegExp] => [
      { labels: { [label]: 'a' } },
      new RegExp(`labels: has the name "${label}"; .*, but no label of Kubernetes, Karpenter, EKS or this package$`),
    ]),
    [{ labels: { team: 'a'.repeat(64) } }, /labels\.team: is "a+"; allowed: at most 63/],
    [{ taints: [{ key: 'a/b/c' }] }, /taints\[0\]\.key: is "a\/b\/c"; allowed: at most 63/],
    [{ disruption: { expireAfter: '505h' } }, /expireAfter: is "505h"; allowed: hours, from "1h"/],
    [
      { disruption: { budgets: [{ nodes: '0', schedule: 'daily' }] } },
      /budgets\[0\]\.schedule: is "daily"; allowed: a cron schedule/,
    ],
    [
      { instanceTypes: 'g5.xlarge' },
      /instanceTypes: is "g5.xlarge"; allowed: a list of: .*\n {4}-> write it as a list: \[g5.xlarge\]$/,
    ],
    [
      { nodeClass: { group: 'g', kind: 'k', name: 'n' } },
      /nodeClass: is set, but this stack creates the cluster and the node class/,
    ],
  ])('with %j', (fields, said) => {
    expect(getProblems({ gpuNodePools: [{ ...POOL, ...fields }] })).toEqual([expect.stringMatching(said)]);
  });

  test('of managed groups with zones in an existing network, whose subnets have unknown zones', () => {
    const network = { privateSubnetIds: ['subnet-0a', 'subnet-0b'] };
    const pool = { ...POOL, zones: ['us-east-1f'] };
    expect(getProblems({ ...network, gpuNodePools: [pool] })).toEqual([]);
    expect(getProblems({ ...network, gpuNodePools: [{ ...pool, zones: ['eu-west-1a'] }] })).toEqual([
      'gpuNodePools[0].zones: has eu-west-1a, but aws:region is us-east-1; allowed: zones of us-east-1, "us-east-1a"',
    ]);
    expect(getProblems({ ...network, gpuNodePools: [{ ...pool, capacityTypes: ['spot'], nodes: 1 }] })).toEqual([
      'gpuNodePools[0].zones: has us-east-1f, but the zones of privateSubnetIds are unknown\n' +
        '    -> remove it; a managed node group uses all subnets of privateSubnetIds',
    ]);
  });

  test('whose nodes the cluster cannot start', () => {
    expect(getProblems({ ...LOCAL, gpuNodePools: [{ ...POOL, nodes: 1 }] }, 'local')).toEqual([
      'gpuNodePools[0].nodes: is set, but this stack does not create the cluster\n    -> remove it',
      expect.stringMatching(/nodeClass: is missing, .* of its Karpenter, or an empty gpuNodePools$/),
    ]);
  });

  test('whose instance types have too few GPUs for a replica', () => {
    expect(
      getProblems({ gpusPerPod: 4, gpuNodePools: [{ ...POOL, instanceTypes: ['g5.xlarge', 'g5.12xlarge'] }] }),
    ).toEqual([
      'gpuNodePools[0].instanceTypes: has g5.xlarge with 1 GPU, but a replica needs 4\n' +
        '    -> use instance types with more GPUs, or lower gpusPerPod',
    ]);
  });

  test('whose instance types have too few cores or too little memory for a replica', () => {
    const gpuNodePools = [{ ...POOL, instanceTypes: ['g5.xlarge', 'g5.2xlarge'] }];
    const hint = '    -> use larger instance types, or lower resources.cpu and resources.memoryGiB';
    const small =
      'gpuNodePools[0].instanceTypes: has g5.xlarge with 3.92 cores and 13.83 GiB for pods of its 4 cores and 16 GiB';
    expect(getProblems({ resources: { memoryGiB: 14 }, gpuNodePools })).toEqual([
      `${small}, but a replica needs 2.25 cores and 14.25 GiB\n${hint}`,
    ]);
    expect(getProblems({ resources: { cpu: 4 }, gpuNodePools })).toEqual([
      `${small}, but a replica needs 4.25 cores and 8.25 GiB\n${hint}`,
    ]);
    expect(getProblems({ resources: { cpu: 3, memoryGiB: 13 }, gpuNodePools })).toEqual([]);
    expect(getProblems({ resources: { memoryGiB: 64 }, gpusPerPod: 0, gpuNodePools })).toEqual([]);
  });

  test.each([
    ['Auto Mode', {}, 14, 1],
    ['a managed group', { capacityTypes: ['spot'], nodes: 1 }, 14, 0],
    ['a managed group', { capacityTypes: ['spot'], nodes: 1 }, 15, 1],
  ])('of %s %j on g5.xlarge with %i GiB for Triton: %i problems', (_, pool, memoryGiB, problems) => {
    expect(getProblems({ resources: { memoryGiB }, gpuNodePools: [{ ...POOL, ...pool }] })).toHaveLength(problems);
  });

  test.each(['default', 'system', 'general-purpose'])('of Auto Mode with the name %s', (name) => {
    expect(getProblems({ gpuNodePools: [{ ...POOL, name }] })).toEqual([
      `gpuNodePools[0].name: is "${name}", which EKS Auto Mode uses itself; ` +
        'allowed: any name but default, general-purpose, system',
    ]);
    expect(getProblems({ gpuNodePools: [{ ...POOL, name, capacityTypes: ['spot'], nodes: 1 }] })).toEqual([]);
  });
});

/** These declare settings: their types, defaults and limits. */
const DECLARATIONS = /(-fields|types|args|defaults|limits)\.ts$/;

/** The code of infra/ that uses settings, without comments. */
const code = readdirSync(join(paths.root, 'infra'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !DECLARATIONS.test(file))
  .map((file) => readFileSync(join(paths.root, 'infra', file), 'utf8').replace(/\/\*\*[^]*?\*\/|\/\/.*$/gm, ''))
  .join('\n');

/** The names of all settings, those in mappings too. */
const getNames = (fields: Fields): string[] =>
  Object.entries(fields).flatMap(([name, field]) => [
    name,
    // Karpenter gets budgets as they are.
    ...('fields' in field && name !== 'budgets' ? getNames(field.fields) : []),
  ]);

test.each([...new Set(getNames(CONFIG_FIELDS))])('the setting %s is used by a component', (name) => {
  expect(code).toMatch(new RegExp(`\\b${name}\\b`));
});

const INGRESS = {
  kind: 'ingress',
  host: 'a.example.com',
  certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
};

describe('readSettings of the replicas', () => {
  test.each([
    {
      values: {
        namespace: { name: 'My_Models' },
        image: 'triton:latest',
        resources: { cpu: 0 },
        autoscaling: { minReplicas: 2 },
        exposure: { controllerCidrs: ['vpc'], host: 'https://a.example.com' },
        availabilityZones: ['nowhere'],
      },
      fields: [
        ...['availabilityZones[0]', 'namespace.name', 'image', 'resources.cpu', 'exposure.controllerCidrs[0]'],
        ...['exposure.host', 'autoscaling.maxReplicas'],
      ],
    },
    {
      values: {
        resources: { sharedMemoryGiB: 8 },
        rollout: { maxUnavailable: 2 },
        exposure: { kind: 'ingress' },
        availabilityZones: ['us-east-1a'],
      },
      fields: ['availabilityZones', 'resources.sharedMemoryGiB', 'rollout.maxUnavailable', 'exposure.host', 'exposure'],
    },
  ])('reports what TritonServer rejects together with other problems, under the same names', ({ values, fields }) => {
    expect(getProblems(values).map((text) => text.split(': ')[0])).toEqual(fields);
  });

  test('fills in class and addresses of an ingress in a created network and cluster', () => {
    const { exposure, createIngressClass } = readSettings(getConfig('prod', { exposure: INGRESS })).triton;
    expect(exposure).toMatchObject({ ...INGRESS, className: 'alb', scheme: 'internal' });
    expect(exposure.controllerCidrs).toEqual(['10.1.0.0/19', '10.1.32.0/19', '10.1.64.0/19']);
    expect(createIngressClass).toBe(true);
  });

  test.each([
    ['of another class', { exposure: { ...INGRESS, className: 'nginx' } }],
    ['of an existing cluster', { ...EXISTING, exposure: { ...INGRESS, controllerCidrs: ['10.9.0.0/16'] } }],
  ])('creates no class for an ingress %s', (_, values) => {
    expect(readSettings(getConfig('prod', values)).triton.createIngressClass).toBe(false);
  });

  test('reads empty mappings as missing, as in Pulumi.yaml', () => {
    const given = { monitoring: {}, autoscaling: {}, resources: {}, exposure: {}, image: '' };
    expect(readSettings(getConfig('staging', given)).triton).toEqual(readSettings(getConfig('staging')).triton);
  });
});
