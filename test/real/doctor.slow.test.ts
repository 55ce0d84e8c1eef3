import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  AllocateAddressCommand,
  CreateInternetGatewayCommand,
  CreateRouteCommand,
  CreateSubnetCommand,
  CreateVpcCommand,
  DescribeRouteTablesCommand,
  DescribeVpcsCommand,
  EC2Client,
} from '@aws-sdk/client-ec2';
import { CreateClusterCommand, EKSClient } from '@aws-sdk/client-eks';
import { RequestServiceQuotaIncreaseCommand, ServiceQuotasClient } from '@aws-sdk/client-service-quotas';
import { paths } from '../../src/core/paths';
import type { ReportLine } from '../../infra/doctor/doctor';
import { main } from '../../scripts/doctor';
import { listenOnLoopback } from '../support/loopback';
import { askMoto, testMoto, type Moto } from '../support/moto';
import { runCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';

/** `npm run doctor` against the mock of AWS: each state of an account is named, and a clean account has none. */

const scratch = new Scratch();
let moto: Moto;
beforeAll(async () => {
  // No check reads policies that AWS manages. Loading them takes most of a reset's time.
  process.env['MOTO_IAM_LOAD_MANAGED_POLICIES'] = 'false';
  moto = await testMoto(scratch);
  // Reports the address of its client.
  const server = await listenOnLoopback(createHttpServer((_, response) => response.end('203.0.113.7\n')));
  scratch.defer(() => server.stop());
  Object.assign(process.env, moto.env, { TRITON_CHECKIP_URL: `http://127.0.0.1:${server.port}` });
}, 600_000);
afterAll(() => scratch.clean());
beforeEach(async () => {
  if (isClean) return;
  await tellMoto('reset-auth', 'inf');
  await tellMoto('reset', '');
  await tellMoto('kubernetes-versions', '{}');
  await grant('L-DB2E81BA', 24);
  await grant('L-3819A6DF', 24);
  isClean = true;
});

/** Whether no test has changed the account since the last reset, which takes long. */
let isClean = false;

const REGION = 'us-east-1';
const ACCOUNT = '123456789012';
const TAGS = { project: 'triton-serving', stack: 'staging' };

/** A stack file without its prefix, for which a new account with quotas for GPUs has nothing to report. */
const CLEAN = {
  availabilityZones: ['us-east-1a', 'us-east-1b', 'us-east-1c'],
  publisherSubjects: ['repo:acme@1/models@2:environment:staging'],
  publicAccessCidrs: ['203.0.113.0/24'],
  gpuNodePools: [{ name: 'a10g', instanceTypes: ['g5.xlarge', 'g5.2xlarge'], maximumGpus: 3 }],
};
interface Settings {
  /** Own settings that differ from CLEAN. */
  settings?: object;
  /** Settings of the AWS provider that differ from region and tags. */
  aws?: object;
}

let stacks = 0;

/** Writes a stack file and returns its folder. */
function writeStack({ settings = {}, aws = {} }: Settings): string {
  const folder = join(scratch.directory, `stack-${(stacks += 1)}`);
  mkdirSync(folder);
  const prefixed = (prefix: string, values: object) =>
    Object.fromEntries(Object.entries(values).map(([key, value]: [string, unknown]) => [`${prefix}:${key}`, value]));
  const config = {
    ...prefixed('aws', { region: REGION, defaultTags: { tags: TAGS }, ...aws }),
    ...prefixed('triton-serving', { ...CLEAN, ...settings }),
  };
  // JSON is YAML.
  writeFileSync(join(folder, 'Pulumi.staging.yaml'), JSON.stringify({ config }));
  return folder;
}

/** Runs the doctor in this process, with other variables if given. */
async function examine(
  stack: Settings,
  env: Record<string, string> = {},
): Promise<{ code: number; lines: ReportLine[]; text: string }> {
  let text = '';
  const write = jest.spyOn(process.stdout, 'write').mockImplementation((chunk) => ((text += String(chunk)), true));
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    const code = await main(['--stack', 'staging', '--stack-dir', writeStack(stack), '--json']);
    return { code, lines: (JSON.parse(text) as { checks: ReportLine[] }).checks, text };
  } finally {
    write.mockRestore();
    process.env = before;
  }
}

const findings = (lines: readonly ReportLine[]): string[] =>
  lines.filter(({ level }) => level !== 'ok').map(({ level, check }) => `${level} ${check}`);

async function tellMoto(path: string, body: string): Promise<void> {
  const response = await fetch(`${moto.endpoint}/moto-api/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body,
  });
  expect(response.status).toBe(200);
}

// The SDK reads the variable when the first client is created.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
const ec2 = new EC2Client({ region: REGION });
const eks = new EKSClient({ region: REGION });

async function grant(code: string, vcpus: number): Promise<void> {
  const request = { ServiceCode: 'ec2', QuotaCode: code, DesiredValue: vcpus };
  await new ServiceQuotasClient({ region: REGION }).send(new RequestServiceQuotaIncreaseCommand(request));
}

async function createCluster(): Promise<void> {
  const roleArn = `arn:aws:iam::${ACCOUNT}:role/cluster`;
  await eks.send(new CreateClusterCommand({ name: 'triton-staging', roleArn, resourcesVpcConfig: { subnetIds: [] } }));
}

async function createVpc(route?: { TransitGatewayId?: string; GatewayId?: string }): Promise<string> {
  const VpcId = (await ec2.send(new CreateVpcCommand({ CidrBlock: '10.0.0.0/16' }))).Vpc?.VpcId ?? '';
  if (route !== undefined) {
    const Filters = [{ Name: 'vpc-id', Values: [VpcId] }];
    const { RouteTables } = await ec2.send(new DescribeRouteTablesCommand({ Filters }));
    const { RouteTableId } = RouteTables?.[0] ?? {};
    await ec2.send(new CreateRouteCommand({ RouteTableId, DestinationCidrBlock: '0.0.0.0/0', ...route }));
  }
  return VpcId;
}

/** A VPC whose nodes reach other networks through a transit gateway. */
const createRoutedVpc = (): Promise<string> => createVpc({ TransitGatewayId: 'tgw-0123456789abcdef0' });

/** A stack in a new VPC with a subnet in each of two zones. */
async function createNetwork(createIt = createRoutedVpc, size = 24): Promise<Settings> {
  const vpcId = await createIt();
  const privateSubnetIds: string[] = [];
  for (const [i, zone] of ['a', 'b'].entries()) {
    const place = { AvailabilityZone: `${REGION}${zone}`, CidrBlock: `10.0.${i}.0/${size}` };
    const { Subnet } = await ec2.send(new CreateSubnetCommand({ VpcId: vpcId, ...place }));
    privateSubnetIds.push(Subnet?.SubnetId ?? '');
  }
  return { settings: { availabilityZones: [], privateSubnetIds } };
}

interface State extends Settings {
  name: string;
  /** Variables with which the doctor runs, in addition to those of the mock. */
  env?: () => Record<string, string>;
  /** Makes the state, and returns settings with which the stack uses it. */
  make?: () => Promise<unknown>;
  /** Lines that are not ok, as "level check". Default: none. */
  finds?: string[];
  /** What the report says of the state, and how to fix it. */
  says?: RegExp[];
}

const STATES: State[] = [
  {
    name: 'a clean account',
    aws: { allowedAccountIds: `["${ACCOUNT}"]` },
    says: [/account 123456789012 as arn:aws:sts::123456789012:user\/moto/],
  },
  {
    name: 'another account than the stack file allows',
    aws: { allowedAccountIds: ['111111111111'] },
    finds: ['error credentials'],
    says: [/account 123456789012 .* aws:allowedAccountIds has 111111111111/, /AWS_PROFILE/],
  },
  {
    name: 'the account of the role in aws:assumeRoles',
    aws: { assumeRoles: [{ roleArn: `arn:aws:iam::111111111111:role/deploy` }], allowedAccountIds: [ACCOUNT] },
    finds: ['error credentials', 'error GPU quotas', 'error GPU quotas'],
    says: [/account 111111111111 as arn:aws:sts::111111111111:assumed-role\/deploy\/triton-serving-doctor/],
  },
  {
    name: 'subnets that exist, with a Kubernetes API that admits only their VPC',
    settings: { publicAccessCidrs: [] },
    make: () => createNetwork(),
    says: [/subnet-\w+, subnet-\w+ have a default route and free addresses/],
  },
  {
    name: 'subnets without a way out, for an internal load balancer',
    make: async () => {
      const { settings } = await createNetwork(createVpc);
      return {
        settings: {
          ...settings,
          exposure: {
            kind: 'internal-load-balancer',
            clientCidrs: ['10.0.0.0/16'],
            controllerCidrs: ['10.0.0.0/16'],
          },
        },
      };
    },
    finds: Array<string>(4).fill('warning subnets'),
    says: [
      /has no route to 0\.0\.0\.0\/0/,
      /aws ec2 create-tags --resources subnet-\w+ --tags Key=kubernetes.io\/role\/internal-elb/,
    ],
  },
  {
    name: 'public subnets without public addresses',
    make: async () => {
      const { InternetGateway } = await ec2.send(new CreateInternetGatewayCommand({}));
      const GatewayId = InternetGateway?.InternetGatewayId ?? '';
      return createNetwork(() => createVpc({ GatewayId }));
    },
    finds: ['error subnets', 'error subnets'],
    says: [/leads to the internet gateway igw-\w+, but nodes get no public address there/],
  },
  {
    name: 'a subnet that does not exist',
    settings: { availabilityZones: [], privateSubnetIds: ['subnet-0123', 'subnet-4567'] },
    finds: ['error subnets', 'error GPU types'],
    says: [/there is no subnet subnet-0123, subnet-4567 in this account/],
  },
  {
    name: 'no quota for GPUs',
    make: async () => {
      await grant('L-DB2E81BA', 0);
      await grant('L-3819A6DF', 0);
    },
    finds: ['error GPU quotas', 'error GPU quotas'],
    says: [
      /Running On-Demand G and VT instances \(L-DB2E81BA\): 0 vCPUs, and the pools can request 24; all quotas together allow 0 of 2 replicas/,
      /--quota-code L-DB2E81BA --desired-value 24 --region us-east-1/,
      /--quota-code L-3819A6DF --desired-value 24/,
    ],
  },
  {
    name: 'as many VPCs as the quota allows',
    make: async () => {
      const { Vpcs = [] } = await ec2.send(new DescribeVpcsCommand({}));
      for (let i = Vpcs.length; i < 5; i++) await createVpc();
    },
    finds: ['error network quotas'],
    says: [/VPCs per Region \(L-F678F1CE\): 5 of 5 in use, and the stack needs 1/, /--desired-value 6/],
  },
  {
    name: 'too few addresses for a NAT gateway in each zone',
    make: async () => {
      for (let i = 0; i < 3; i++) await ec2.send(new AllocateAddressCommand({ Domain: 'vpc' }));
    },
    finds: ['error network quotas'],
    says: [/EC2-VPC Elastic IPs \(L-0263D0A3\): 3 of 5 in use, and the stack needs 3/],
  },
  {
    name: 'a Kubernetes version in extended support',
    settings: { kubernetesVersion: '1.34' },
    make: () => tellMoto('kubernetes-versions', '{"1.34": {"versionStatus": "EXTENDED_SUPPORT"}}'),
    finds: ['warning EKS version'],
    says: [
      /Kubernetes 1.34 is in extended support/,
      /set kubernetesVersion to a version in standard support: 1.36, 1.35/,
    ],
  },
  {
    name: 'a Kubernetes version whose standard support ends soon',
    make: () => {
      const endOfStandardSupportDate = new Date(Date.now() + 10 * 86_400_000).toISOString().replace('Z', '+00:00');
      return tellMoto('kubernetes-versions', JSON.stringify({ '1.36': { endOfStandardSupportDate } }));
    },
    finds: ['warning EKS version'],
    says: [/standard support of Kubernetes 1.36 ends on \d{4}-\d\d-\d\d/],
  },
  {
    name: 'a Kubernetes version that EKS does not offer',
    make: () => tellMoto('kubernetes-versions', '{"1.36": null}'),
    finds: ['error EKS version'],
    says: [/EKS does not offer Kubernetes 1.36/],
  },
  {
    name: 'a Kubernetes API that admits other machines',
    settings: { publicAccessCidrs: ['198.51.100.0/24'] },
    finds: ['warning own address'],
    says: [
      /has the address 203.0.113.7, which is not in publicAccessCidrs \(198.51.100.0\/24\)/,
      /pulumi config set --stack staging --path 'publicAccessCidrs\[1\]' 203.0.113.7\/32/,
    ],
  },
  {
    name: 'a network without the server that reports the address',
    settings: { publicAccessCidrs: ['198.51.100.0/24'] },
    env: () => ({ TRITON_CHECKIP_URL: 'http://127.0.0.1:9' }),
    finds: ['warning own address'],
    says: [/not checked: GET http:\/\/127.0.0.1:9: ECONNREFUSED/],
  },
  {
    name: 'subnets with few addresses',
    make: () => createNetwork(createRoutedVpc, 28),
    finds: ['warning subnets', 'warning subnets'],
    says: [/subnet-\w+ has 11 free addresses/],
  },
  {
    name: 'the network of the stack, which counts against the quotas',
    settings: { publicAccessCidrs: [] },
    make: async () => {
      await createCluster();
      for (let i = 0; i < 5; i++) await ec2.send(new AllocateAddressCommand({ Domain: 'vpc' }));
    },
  },
];

test.each(STATES)('names $name', async ({ settings, env, make, finds = [], says = [], ...stack }) => {
  isClean = make === undefined;
  const made = (await make?.()) as Settings | undefined;
  const { code, lines, text } = await examine({ ...stack, settings: { ...settings, ...made?.settings } }, env?.());
  expect(findings(lines)).toEqual(finds);
  for (const pattern of says) expect(text).toMatch(pattern);
  for (const line of lines) expect(line.level === 'ok').toBe(line.fix === undefined);
  expect(code).toBe(finds.some((line) => line.startsWith('error')) ? 1 : 0);
});

/** docs/iam/doctor.json, with the keys of a user whose rights the mock checks. */
describe('the rights of the doctor', () => {
  const file = readFileSync(join(paths.root, 'docs/iam/doctor.json'), 'utf8');
  const rights = (JSON.parse(file) as { Statement: [{ Action: string[] }] }).Statement[0].Action;
  let keys: Record<string, string>;
  /** A stack in an existing network. */
  let withNetwork: Settings;

  const askIam = (parameters: Record<string, string>): Promise<string> => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const body = new URLSearchParams({ Version: '2010-05-08', UserName: 'doctor', ...parameters });
    return askMoto(moto, 'iam', '/', form, body.toString());
  };

  beforeEach(async () => {
    isClean = false;
    await askIam({ Action: 'CreateUser' });
    const answer = await askIam({ Action: 'CreateAccessKey' });
    const find = (name: string): string => new RegExp(`<${name}>(.*)</${name}>`).exec(answer)?.[1] ?? '';
    keys = { AWS_ACCESS_KEY_ID: find('AccessKeyId'), AWS_SECRET_ACCESS_KEY: find('SecretAccessKey') };
    withNetwork = await createNetwork();
  });

  const examineWith = async (stack: Settings, allowed: readonly string[]): Promise<ReportLine[]> => {
    await tellMoto('reset-auth', 'inf');
    const statement = { Effect: 'Allow', Action: allowed, Resource: '*' };
    const PolicyDocument = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
    await askIam({ Action: 'PutUserPolicy', PolicyName: 'doctor', PolicyDocument });
    await tellMoto('reset-auth', '0');
    return (await examine(stack, keys)).lines;
  };

  test('only read, and suffice', async () => {
    expect(rights.filter((right) => !/:(Describe|Get|List)/.test(right))).toEqual([]);
    expect(findings(await examineWith({}, rights))).toEqual([]);
    expect(findings(await examineWith(withNetwork, rights))).toEqual([]);
  });

  test('are all needed, and a check that lacks one is a warning that names it', async () => {
    for (const right of rights) {
      const stack = /RouteTables|Subnets/.test(right) ? withNetwork : {};
      const lines = await examineWith(
        stack,
        rights.filter((one) => one !== right),
      );
      const affected = lines.filter(({ level }) => level !== 'ok');
      expect({ right, affected: affected.length > 0 }).toEqual({ right, affected: true });
      for (const { level, found } of affected) {
        expect([level, found]).toEqual(['warning', `not checked: the caller lacks the right ${right}`]);
      }
    }
  });
});

test('credentials that AWS rejects are an error, and the checks that need them are warnings', async () => {
  isClean = false;
  await tellMoto('reset-auth', '0');
  const { code, lines } = await examine({}, { AWS_ACCESS_KEY_ID: 'unknown' });
  expect(code).toBe(1);
  expect(lines).toContainEqual({
    ...{ check: 'credentials', level: 'error', fix: expect.any(String) as string },
    found: expect.stringMatching(/the request for sts:GetCallerIdentity failed: InvalidClientTokenId/) as string,
  });
  expect(findings(lines)).toContain('warning GPU types');
});

test('a shell without credentials is an error', async () => {
  const { code, lines } = await examine({}, { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' });
  expect(code).toBe(1);
  expect(lines[0]).toMatchObject({
    level: 'error',
    found: expect.stringMatching(/cannot obtain the AWS cred/) as string,
  });
});

test('a service that does not answer stops only the checks that need it', async () => {
  const silent = await listenOnLoopback(createServer());
  const endpoint = `http://127.0.0.1:${silent.port}`;
  try {
    const args = ['--stack', 'staging', '--stack-dir', writeStack({})];
    const { code, stdout, stderr } = await runCommandLine('doctor', args, {
      AWS_ENDPOINT_URL_SERVICE_QUOTAS: endpoint,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.split('\n').filter((line) => /^\w/.test(line));
    const wrong = lines.filter((line) => !line.startsWith('ok '));
    expect(wrong).toEqual([
      expect.stringMatching(/^warning {2}GPU quotas +not checked: no answer within 20.0 s$/),
      expect.stringMatching(/^warning {2}network quotas +not checked: no answer within 20.0 s$/),
    ]);
    // One page.
    expect(stdout.split('\n').length).toBeLessThan(25);
  } finally {
    await silent.stop();
  }
});
