import { readSettings } from '../../../infra/settings';
import { UserError } from '../../../src/core/errors';
import { configOf } from '../../support/registered-stack';
import { POOL, problemsOf } from './settings-problems';
import { NARROW_SUBJECTS, WIDE_SUBJECTS } from './subjects';

const LOCAL = {
  s3AccessKeyId: 'key',
  s3SecretAccessKey: 'secret',
};

describe('the stacks of the repository', () => {
  test('can be read as they are', () => {
    expect(problemsOf({}, 'staging')).toEqual([]);
    expect(problemsOf({}, 'prod')).toEqual([]);
    expect(problemsOf(LOCAL, 'local')).toEqual([]);
  });

  test('staging is small and can be deleted, prod is neither', () => {
    const staging = readSettings(configOf('staging'));
    const prod = readSettings(configOf('prod'));
    expect(staging).toMatchObject({
      protect: false,
      cluster: { kind: 'create', name: 'triton-staging', version: '1.35', network: { natGateways: 'one' } },
      modelRepository: { kind: 'create', prefix: 'models', forceDestroy: true },
    });
    // A first "pulumi up" finds no kinds of KEDA or the Prometheus operator.
    for (const { triton } of [staging, prod]) {
      expect(triton).not.toHaveProperty('autoscaling');
      expect(triton).not.toHaveProperty('monitoring');
    }
    expect(prod).toMatchObject({
      protect: true,
      cluster: { kind: 'create', name: 'triton-prod', version: '1.35', network: { natGateways: 'per-zone' } },
      modelRepository: { kind: 'create', prefix: 'models', forceDestroy: false },
      triton: { replicas: 3 },
    });
  });

  test('a pool that says little has the defaults', () => {
    expect(readSettings(configOf('staging', { gpuNodePools: [POOL] })).gpuNodePools).toEqual([
      {
        name: 'a10g',
        mechanism: 'auto-mode',
        instanceTypes: ['g5.xlarge'],
        capacityTypes: ['spot', 'on-demand'],
        maximumGpus: 8,
        minimumNodes: 0,
        maximumNodes: 2,
        zones: [],
        labels: {},
        taints: [],
        disruptedNodes: '1',
        consolidateAfterMinutes: 10,
        expireAfterHours: 336,
        diskGiB: 150,
        capacityReservationIds: [],
        ami: 'AL2023',
        timeSlices: 1,
        dcgmExporter: false,
      },
    ]);
  });

  test('the local stack makes nothing in AWS', () => {
    expect(readSettings(configOf('local', LOCAL))).toMatchObject({
      cluster: { kind: 'existing', context: 'kind-kind' },
      modelRepository: { kind: 'elsewhere', bucket: 'local', endpointUrl: 'http://host.docker.internal:9000' },
      gpuNodePools: [],
      publisher: undefined,
    });
  });
});

describe('what is wrong', () => {
  test('is told all at once, with key, value, what is allowed and what to do', () => {
    expect(
      problemsOf({
        natGateway: 'one',
        natGateways: 'two',
        oldVersionDays: 0,
        protect: 'yes',
        availabilityZones: 'us-east-1a',
        publicAccessCidrs: ['203.0.113.0/24', 'everywhere'],
        resources: { memory: 16 },
        gpuNodePools: [{ name: 'GPU', instanceTypes: ['g5.xlarge', 'g5.tiny'], labels: { team: 1 } }],
      }),
    ).toEqual([
      expect.stringMatching(/^natGateway: unknown setting; allowed: .*\n {4}-> did you mean natGateways\?$/),
      'protect: is "yes"; allowed: true, false',
      'availabilityZones: is "us-east-1a"; allowed: a list of: "us-east-1a"\n    -> write it as a list: [us-east-1a]',
      'natGateways: is "two"; allowed: one, per-zone',
      'publicAccessCidrs[1]: is "everywhere"; allowed: an IPv4 range, "203.0.113.0/24"',
      'gpuNodePools[0].name: is "GPU"; allowed: at most 40 lower-case letters, digits and hyphens, beginning with a letter',
      expect.stringMatching(/^gpuNodePools\[0\]\.instanceTypes\[1\]: is "g5.tiny"; allowed: g4dn.xlarge, /),
      'gpuNodePools[0].labels: is a mapping; allowed: a mapping of text to text',
      'oldVersionDays: is 0; allowed: a whole number from 1 to 3650',
      expect.stringMatching(/^resources\.memory: unknown setting; allowed: cpu, /),
    ]);
  });

  test.each<[string, Record<string, unknown>, string[]]>([
    [
      'the API is open to everybody',
      { publicAccessCidrs: ['0.0.0.0/0'] },
      [
        'publicAccessCidrs[0]: is "0.0.0.0/0": it contains every address; allowed: an IPv4 range, "203.0.113.0/24"\n' +
          '    -> list the addresses of your people and CI; leave the list empty to allow the VPC only',
      ],
    ],
    [
      'the API is open to everybody, and another value is wrong',
      { publicAccessCidrs: ['0.0.0.0/0'], protect: 'yes' },
      ['protect: is "yes"; allowed: true, false', expect.stringMatching(/^publicAccessCidrs\[0\]: is "0.0.0.0\/0"/)],
    ],
    [
      'a misspelt setting, and settings that do not fit together',
      { replica: 3, privateSubnetIds: ['subnet-0a'] },
      [
        expect.stringMatching(/^replica: unknown setting; .*\n {4}-> did you mean replicas\?$/),
        'privateSubnetIds: is given without vpcId\n    -> name the VPC too, or leave it out',
      ],
    ],
    [
      'an address instead of a range',
      { publicAccessCidrs: ['203.0.113.7'] },
      [
        'publicAccessCidrs[0]: is "203.0.113.7": an address, not a range; allowed: an IPv4 range, "203.0.113.0/24"\n' +
          '    -> write 203.0.113.7/32 for this address',
      ],
    ],
    [
      'a range that does not begin with its first address',
      { publicAccessCidrs: ['203.0.113.7/24'] },
      [
        'publicAccessCidrs[0]: is "203.0.113.7/24": not the first address of its range; ' +
          'allowed: an IPv4 range, "203.0.113.0/24"\n' +
          '    -> write 203.0.113.0/24 for the range, or 203.0.113.7/32 for this address',
      ],
    ],
    [
      'text around a range',
      { publicAccessCidrs: ['10.0.0.0/16x', 'x10.0.0.0/16', '10.0.0.256/32', '10.0.0.0/33'] },
      ['10.0.0.0/16x', 'x10.0.0.0/16', '10.0.0.256/32', '10.0.0.0/33'].map(
        (text, index) => `publicAccessCidrs[${index}]: is "${text}"; allowed: an IPv4 range, "203.0.113.0/24"`,
      ),
    ],
    [
      'zones of another region',
      { availabilityZones: ['us-east-1a', 'eu-west-1b'] },
      ['availabilityZones: has eu-west-1b, and aws:region is us-east-1; allowed: zones of us-east-1, "us-east-1a"'],
    ],
    [
      'a region of the bucket that cannot be one',
      { bucketName: 'models', bucketRegion: 'eu_west1' },
      ['bucketRegion: is "eu_west1"; allowed: an AWS region, "us-east-1"\n    -> did you mean eu-west-1?'],
    ],
    [
      'a choice that is misspelt',
      { natGateways: 'per_zone' },
      ['natGateways: is "per_zone"; allowed: one, per-zone\n    -> did you mean "per-zone"?'],
    ],
    [
      'a pool that is not in a list',
      { gpuNodePools: { name: 'a10g', instanceTypes: ['g5.xlarge'] } },
      [
        expect.stringMatching(
          /^gpuNodePools: is a mapping; allowed: a list, .*\n {4}-> write it as a list: put "- " before its first key$/,
        ),
      ],
    ],
    [
      'a load balancer in a network that is not made here, without its addresses',
      {
        vpcId: 'vpc-0a',
        privateSubnetIds: ['subnet-0a', 'subnet-0b'],
        exposure: 'internal-load-balancer',
        clientCidrs: ['10.0.0.0/8'],
        modelControlKey: 'a-key-of-a-test-0',
      },
      [
        'loadBalancerCidrs: is empty, and the network is not made here; ' +
          'allowed: where the load balancer or ingress controller is, ["10.0.0.0/16"]',
      ],
    ],
    [
      'a network in one zone',
      { availabilityZones: ['us-east-1a'] },
      [
        'availabilityZones: has 1 different zones; allowed: from 2 to 6, each once\n' +
          '    -> "aws ec2 describe-availability-zones" lists those of the region',
      ],
    ],
    [
      'a network of a size that it cannot have',
      { vpcCidr: '10.0.0.0/24' },
      ['vpcCidr: is 10.0.0.0/24: not a size that a network can have; allowed: from /16 to /20, "10.0.0.0/16"'],
    ],
    [
      'an existing network without subnets',
      { vpcId: 'vpc-0a', privateSubnetIds: [] },
      [
        'privateSubnetIds: has 0 subnets; allowed: at least two, in different zones\n' +
          '    -> name the private subnets of the VPC',
      ],
    ],
    [
      'days that CloudWatch does not know',
      { flowLogDays: 13 },
      [expect.stringMatching(/^flowLogDays: is 13; allowed: 1, 3, 5, 7, 14, /)],
    ],
    [
      'models that are protected and deleted',
      { protect: true },
      ['bucketForceDestroy: is true, and so is protect\n    -> set one of them to false'],
    ],
    [
      'a prefix that the publisher refuses',
      { modelRepositoryPrefix: 'models.releases' },
      [
        'modelRepositoryPrefix: this prefix is reserved, because the publisher stores the releases of a repository under it; ' +
          'allowed: the repository is s3://bucket/models',
      ],
    ],
    [
      'an S3 API with half a key',
      {
        bucketName: 'models',
        s3Endpoint: 'http://s3:9000',
        s3AccessKeyId: 'key',
        publisherSubjects: [],
        gpuNodePools: [],
      },
      [
        's3SecretAccessKey: is missing; allowed: s3Endpoint, s3AccessKeyId, s3SecretAccessKey are given together, or none of them',
      ],
    ],
    [
      'readers of a bucket that is there',
      { bucketName: 'models', bucketReaders: ['arn:aws:iam::111122223333:role/deploy'] },
      [
        'bucketReaders: is given with bucketName, and the policy of that bucket is left alone\n' +
          '    -> let them read in the policy of the bucket and of its key, and leave it out',
      ],
    ],
    [
      'everybody as a reader',
      { bucketReaders: ['arn:aws:iam::111122223333:role/*'] },
      [
        expect.stringMatching(
          /^bucketReaders\[0\]: is "arn:aws:iam::111122223333:role\/\*"; allowed: the ARN of an IAM role/,
        ),
      ],
    ],
    [
      'a kubeconfig for a cluster that is made',
      { kubeContext: 'mine' },
      ['kubeContext: is given, and a cluster is to be made\n    -> set cluster to existing, or leave it out'],
    ],
  ])('%s', (_, values, said) => {
    expect(problemsOf(values)).toEqual(said);
  });

  test('a secret that is not encrypted is refused, and never shown', () => {
    const source = configOf('staging', { modelControlKey: 'a-key-that-nobody-sees' });
    const read = (): unknown => readSettings({ ...source, encrypted: new Set() });
    expect(read).toThrow(UserError);
    expect(problemsOf({ modelControlKey: 'short' })).toEqual([
      'modelControlKey: is a value that is not shown; allowed: at least 16 letters, digits, _ or -',
    ]);
  });

  test.each(WIDE_SUBJECTS)('the subject %s, which trusts others too', (subject) => {
    expect(problemsOf({ publisherSubjects: [subject] })).toEqual([
      `publisherSubjects[0]: is ${JSON.stringify(subject)}: it also trusts other repositories; allowed: ` +
        'the subject of a token, "repo:OWNER/NAME:environment:prod"; * and ? only after "OWNER/NAME:"',
    ]);
  });

  test.each(NARROW_SUBJECTS)('the subject %s is taken', (subject) => {
    expect(problemsOf({ publisherSubjects: [subject] })).toEqual([]);
  });

  test.each<[string | undefined, string[]]>([
    ['us-east1', ['aws:region: is "us-east1"; allowed: an AWS region, "us-east-1"\n    -> did you mean us-east-1?']],
    [
      'us-east-1a',
      ['aws:region: is "us-east-1a"; allowed: an AWS region, "us-east-1"\n    -> did you mean us-east-1?'],
    ],
    ['virginia', ['aws:region: is "virginia"; allowed: an AWS region, "us-east-1"\n    -> did you mean us-east-1?']],
    ['us-east-1', []],
  ])('the region %s', (region, said) => {
    expect(problemsOf({}, 'staging', { region })).toEqual(said);
  });

  test.each(['eu-central-1', 'us-gov-west-1', 'cn-north-1', 'ap-southeast-7', 'eusc-de-east-1', 'us-iso-east-1'])(
    'a network in %s',
    (region) => {
      const availabilityZones = ['a', 'b'].map((letter) => `${region}${letter}`);
      expect(problemsOf({ availabilityZones }, 'staging', { region })).toEqual([]);
    },
  );

  test('the path of a kubeconfig is no secret, and its text is', () => {
    const of = (kubeconfig: string): string[] =>
      problemsOf({ ...LOCAL, kubeconfig }, 'local', { encrypted: new Set(['s3AccessKeyId', 's3SecretAccessKey']) });
    expect(of('~/kc.yaml')).toEqual([]);
    for (const text of ['{"users": []}', 'users:\n- token: hidden\n']) {
      expect(of(text)).toEqual(['kubeconfig: is not encrypted\n    -> pulumi config set --secret kubeconfig']);
    }
  });

  test('an existing cluster is named, and has a way to the bucket', () => {
    const values = { kubeContext: '', bucketName: '', s3Endpoint: '', bucketRegion: '' };
    expect(problemsOf(values, 'local').map((text) => text.split(':')[0])).toEqual([
      'aws',
      'kubeContext',
      'oidcProviderArn',
    ]);
  });
});

describe('GPU node pools', () => {
  test.each<[string, Record<string, unknown>, RegExp]>([
    ['two of one name', {}, /^gpuNodePools\[1\]\.name: is "a10g", as that of another pool/],
    ['no machines', { instanceTypes: [] }, /instanceTypes: is empty; allowed: some of g4dn/],
    ['no way to pay', { capacityTypes: [] }, /capacityTypes: is empty; allowed: some of reserved, spot, on-demand$/],
    [
      'fewer GPUs than one machine has',
      { instanceTypes: ['g5.12xlarge'], maximumGpus: 3 },
      /maximumGpus: is 3; allowed: at least 4, the GPUs of one node$/,
    ],
    ['a disk that the image fills', { diskGiB: 50 }, /diskGiB: is 50; allowed: at least 60: 40 for the system/],
    [
      'a zone of another network',
      { zones: ['us-east-1f'] },
      /zones: has us-east-1f; allowed: us-east-1a, us-east-1b, us-east-1c$/,
    ],
    [
      'reserved without a reservation',
      { capacityTypes: ['reserved'] },
      /capacityReservationIds: is empty; allowed: capacity type reserved and capacityReservationIds together/,
    ],
    ['a reservation that is not used', { capacityReservationIds: ['cr-0a'] }, /capacityTypes: lacks reserved/],
    [
      'reserved nodes in a group',
      { mechanism: 'managed-node-group', capacityTypes: ['reserved'] },
      /capacityTypes: has reserved; allowed: spot, on-demand/,
    ],
    [
      'a machine that is misspelt',
      { instanceTypes: ['g5.2xlrge'] },
      /instanceTypes\[0\]: is "g5.2xlrge"; allowed: g4dn.xlarge, .*\n {4}-> did you mean "g5.2xlarge"\?$/,
    ],
    [
      'one machine that is not in a list',
      { instanceTypes: 'g5.xlarge' },
      /instanceTypes: is "g5.xlarge"; allowed: a list of: .*\n {4}-> write it as a list: \[g5.xlarge\]$/,
    ],
    [
      'more nodes at least than at most',
      { mechanism: 'managed-node-group', minimumNodes: 3 },
      /minimumNodes: is 3; allowed: at most maximumNodes, 2$/,
    ],
    ['time slices in Auto Mode', { timeSlices: 4 }, /timeSlices: is 4; allowed: 1: only managed-node-group has it$/],
    [
      'Karpenter without a node class',
      { mechanism: 'karpenter' },
      /nodeClass: is missing; allowed: a mapping with group, kind and name/,
    ],
    [
      'a node class in Auto Mode',
      { nodeClass: { group: 'g', kind: 'k', name: 'n' } },
      /nodeClass: is given, and the node class is made here/,
    ],
  ])('%s', (what, fields, said) => {
    const pool = { ...POOL, ...fields };
    expect(problemsOf({ gpuNodePools: what === 'two of one name' ? [POOL, pool] : [pool] })).toEqual([
      expect.stringMatching(said),
    ]);
  });

  test('zones of an existing network choose nodes of Karpenter, and cannot choose subnets for a group', () => {
    const network = { vpcId: 'vpc-0a', privateSubnetIds: ['subnet-0a', 'subnet-0b'] };
    const pool = { ...POOL, zones: ['us-east-1f'] };
    expect(problemsOf({ ...network, gpuNodePools: [pool] })).toEqual([]);
    expect(problemsOf({ ...network, gpuNodePools: [{ ...pool, zones: ['eu-west-1a'] }] })).toEqual([
      'gpuNodePools[0].zones: has eu-west-1a, and aws:region is us-east-1; allowed: zones of us-east-1, "us-east-1a"',
    ]);
    expect(problemsOf({ ...network, gpuNodePools: [{ ...pool, mechanism: 'managed-node-group' }] })).toEqual([
      'gpuNodePools[0].zones: has us-east-1f, and the zones of privateSubnetIds are not known\n' +
        '    -> leave it out: a managed node group is in all of these subnets',
    ]);
  });

  test('Auto Mode is asked of a cluster that has it', () => {
    expect(problemsOf({ autoMode: false, gpuNodePools: [POOL] })).toEqual([
      'gpuNodePools[0].mechanism: is auto-mode, and the cluster is not one with Auto Mode that is made here; ' +
        'allowed: managed-node-group, or set autoMode to true',
    ]);
    expect(problemsOf({ ...LOCAL, gpuNodePools: [POOL] }, 'local')).toEqual([
      expect.stringMatching(/allowed: karpenter, or no pools$/),
    ]);
    expect(problemsOf({ ...LOCAL, gpuNodePools: [{ ...POOL, mechanism: 'managed-node-group' }] }, 'local')).toEqual([
      'gpuNodePools[0].mechanism: is managed-node-group, and the cluster is not made here; allowed: karpenter, or no pools',
    ]);
  });

  test('a server finds the GPUs that it needs on one machine', () => {
    expect(
      problemsOf({ gpusPerPod: 4, gpuNodePools: [{ ...POOL, instanceTypes: ['g5.xlarge', 'g5.12xlarge'] }] }),
    ).toEqual([
      'gpuNodePools[0].instanceTypes: has g5.xlarge with 1 GPU, and a server needs 4\n' +
        '    -> name larger machines, or lower gpusPerPod',
    ]);
    const group = { ...POOL, mechanism: 'managed-node-group', timeSlices: 4 };
    expect(problemsOf({ gpusPerPod: 4, gpuNodePools: [group] })).toEqual([]);
  });

  test('a server finds the cores and the memory that it needs beside the system', () => {
    const gpuNodePools = [{ ...POOL, instanceTypes: ['g5.xlarge', 'g5.2xlarge'] }];
    const hint = '    -> name larger machines, or lower resources.cpu and resources.memoryGiB';
    expect(problemsOf({ resources: { memoryGiB: 16 }, gpuNodePools })).toEqual([
      `gpuNodePools[0].instanceTypes: has g5.xlarge with 4 cores and 16 GiB, and a server needs 2 and 16\n${hint}`,
    ]);
    expect(problemsOf({ resources: { cpu: 4 }, gpuNodePools })).toEqual([
      `gpuNodePools[0].instanceTypes: has g5.xlarge with 4 cores and 16 GiB, and a server needs 4 and 8\n${hint}`,
    ]);
    expect(problemsOf({ resources: { cpu: 3, memoryGiB: 15 }, gpuNodePools })).toEqual([]);
    expect(problemsOf({ resources: { memoryGiB: 64 }, gpusPerPod: 0, gpuNodePools })).toEqual([]);
  });

  test('a plan for one kind of GPU refuses a pool that has another', () => {
    const pools = [{ ...POOL, instanceTypes: ['g5.xlarge', 'g6.xlarge'] }];
    const said = problemsOf({ gpuNodePools: pools });
    expect(said).toEqual([
      expect.stringMatching(
        /^gpuNodePools\[0\]\.instanceTypes: has g6\.xlarge \(L4, 8\.9\), on which model wav2vec_general_v1 does not run; allowed: compute capability 8\.6: g5\.xlarge, /,
      ),
    ]);
    const both = [{ model: 'wav2vec_general_v1', computeCapabilities: ['8.6', '8.9'] }];
    expect(problemsOf({ gpuNodePools: pools, modelGpus: both })).toEqual([]);
    expect(problemsOf({ gpuNodePools: pools, modelGpus: [] })).toEqual([]);
  });
});
