import { createServer } from 'node:net';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ACMClient, RequestCertificateCommand } from '@aws-sdk/client-acm';
import { CreateLogGroupCommand, CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
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
import { CreateAccessEntryCommand, CreateClusterCommand, EKSClient } from '@aws-sdk/client-eks';
import {
  CreateAccessKeyCommand,
  CreateOpenIDConnectProviderCommand,
  CreateRoleCommand,
  CreateUserCommand,
  IAMClient,
  PutUserPolicyCommand,
} from '@aws-sdk/client-iam';
import {
  CreateAliasCommand,
  CreateKeyCommand,
  DisableKeyCommand,
  KMSClient,
  ScheduleKeyDeletionCommand,
} from '@aws-sdk/client-kms';
import { RequestServiceQuotaIncreaseCommand, ServiceQuotasClient } from '@aws-sdk/client-service-quotas';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/install/python';
import { buildCrane } from '../../tools/toolchain/crane';
import { whyNoGo } from '../../tools/toolchain/go';
import type { ReportLine } from '../../infra/doctor/doctor';
import { RIGHTS } from '../../infra/doctor/rights';
import { NODE_DRIVERS } from '../../infra/gpu/cuda';
import { main } from '../../scripts/doctor';
import { describeUnless } from '../support/describe-unless';
import { IMAGE_DIGEST, startInternet, type Internet } from '../support/internet';
import { listenOnLoopback } from '../support/loopback';
import { askMoto, testMoto, type Moto } from '../support/moto';
import { pushImage, startRegistry } from '../support/registry';
import { runCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';

/** `npm run doctor` against the mock of AWS: each state of an account is named, and a clean account has none. */

const scratch = new Scratch();
let moto: Moto;
let internet: Internet;
beforeAll(async () => {
  // No check reads policies that AWS manages. Loading them takes most of a reset's time.
  process.env['MOTO_IAM_LOAD_MANAGED_POLICIES'] = 'false';
  moto = await testMoto(scratch);
  internet = await startInternet(scratch);
  Object.assign(process.env, moto.env, { TRITON_CHECKIP_URL: `${internet.url}/address` });
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
afterEach(() => jest.restoreAllMocks());

/** Whether no test has changed the account since the last reset, which takes long. */
let isClean = false;

const REGION = 'us-east-1';
const ACCOUNT = '123456789012';
/** The identity of the mock's usual keys. */
const CALLER = `arn:aws:sts::${ACCOUNT}:user/moto`;
const GITHUB = 'token.actions.githubusercontent.com';
const PROVIDER = `arn:aws:iam::${ACCOUNT}:oidc-provider/${GITHUB}`;
const TAGS = { project: 'triton-serving', stack: 'staging' };

/** A stack file without its prefix and with REGISTRY for the host of a registry on loopback, for which a new account with quotas for GPUs has nothing to report. */
const CLEAN = {
  image: 'REGISTRY/public/image:26.10-py3',
  agentImage: 'REGISTRY/public/image:2',
  availabilityZones: ['us-east-1a', 'us-east-1b', 'us-east-1c'],
  publisherSubjects: ['repo:acme@1/models@2:environment:staging'],
  createPublisherOidcProvider: true,
  publicAccessCidrs: ['203.0.113.0/24'],
  gpuNodePools: [{ name: 'a10g', instanceTypes: ['g5.xlarge', 'g5.2xlarge'], maximumGpus: 3 }],
};
const pool = (more: object): object => ({ gpuNodePools: [{ ...CLEAN.gpuNodePools[0], ...more }] });
/** The variable of a state in a bucket, and the line of a stack file whose secrets a key encrypts. */
const STATE = { PULUMI_BACKEND_URL: `s3://acme-state?region=${REGION}` };
const KEY = { secretsprovider: `awskms://alias/state?region=${REGION}` };
/** A stack in an existing VPC. */
const inVpc = (vpcId: string, privateSubnetIds: string[]): Settings => ({
  settings: { availabilityZones: [], vpcId, privateSubnetIds },
});

interface Settings {
  /** Own settings that differ from CLEAN. */
  settings?: object;
  /** Keys of the stack file beside config. */
  file?: object;
  /** Text of Pulumi.yaml. */
  project?: string;
  /** Settings of the AWS provider that differ from region and tags. */
  aws?: object;
}

let stacks = 0;

/** Writes a stack file and returns its folder. */
function writeStack({ settings = {}, file = {}, project, aws = {} }: Settings): string {
  const folder = join(scratch.directory, `stack-${(stacks += 1)}`);
  mkdirSync(folder);
  const prefixed = (prefix: string, values: object) =>
    Object.fromEntries(Object.entries(values).map(([key, value]: [string, unknown]) => [`${prefix}:${key}`, value]));
  const config = {
    ...prefixed('aws', { region: REGION, defaultTags: { tags: TAGS }, ...aws }),
    ...prefixed('triton-serving', { ...CLEAN, ...settings }),
  };
  // JSON is YAML.
  const text = JSON.stringify({ ...file, config }).replaceAll('REGISTRY', internet.host);
  writeFileSync(join(folder, 'Pulumi.staging.yaml'), text);
  if (project !== undefined) writeFileSync(join(folder, 'Pulumi.yaml'), project);
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
const acm = new ACMClient({ region: REGION });
const ec2 = new EC2Client({ region: REGION });
const eks = new EKSClient({ region: REGION });
const iam = new IAMClient({ region: REGION });
const kms = new KMSClient({ region: REGION });

async function grant(code: string, vcpus: number): Promise<void> {
  const request = { ServiceCode: 'ec2', QuotaCode: code, DesiredValue: vcpus };
  await new ServiceQuotasClient({ region: REGION }).send(new RequestServiceQuotaIncreaseCommand(request));
}

async function createCluster(tags: Record<string, string>): Promise<void> {
  await eks.send(
    new CreateClusterCommand({
      name: 'triton-staging',
      roleArn: `arn:aws:iam::${ACCOUNT}:role/cluster`,
      resourcesVpcConfig: { subnetIds: [] },
      accessConfig: { authenticationMode: 'API' },
      tags,
    }),
  );
}

async function admit(principalArn: string): Promise<void> {
  await eks.send(new CreateAccessEntryCommand({ clusterName: 'triton-staging', principalArn }));
}

async function createProvider(audience: string, tags: Record<string, string> = {}): Promise<void> {
  await iam.send(
    new CreateOpenIDConnectProviderCommand({
      Url: `https://${GITHUB}`,
      ClientIDList: [audience],
      ThumbprintList: ['0'.repeat(40)],
      Tags: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })),
    }),
  );
}

async function createRole(RoleName: string, Path = '/'): Promise<void> {
  await iam.send(new CreateRoleCommand({ RoleName, Path, AssumeRolePolicyDocument: '{"Statement": []}' }));
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

/** A stack in a new VPC with subnets in these zones. */
async function createNetwork(zones: string[], createIt = createRoutedVpc): Promise<Settings> {
  const vpc = await createIt();
  return inVpc(vpc, await createSubnets(vpc, ...zones));
}

async function createSubnets(VpcId: string, ...zones: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const [i, AvailabilityZone] of zones.entries()) {
    const request = new CreateSubnetCommand({ VpcId, AvailabilityZone, CidrBlock: `10.0.${i}.0/24` });
    ids.push((await ec2.send(request)).Subnet?.SubnetId ?? '');
  }
  return ids;
}

async function createBucket(name: string): Promise<void> {
  await askMoto(moto, 's3', `/${name}`, {}, '', 'PUT');
}

const HOST = 'triton.example.com';

/** A stack with an Ingress. */
const withIngress = (certificateArn: string): Settings => ({
  settings: {
    exposure: 'ingress',
    clientCidrs: ['10.0.0.0/16'],
    ingress: {
      host: HOST,
      certificateArn,
    },
  },
});

/** @param isPrivate whether a private authority issues the certificate, so that no domain is validated */
async function requestCertificate(DomainName: string, isPrivate: boolean): Promise<Settings> {
  const authority = `arn:aws:acm-pca:${REGION}:${ACCOUNT}:certificate-authority/11111111-1111-1111-1111-111111111111`;
  const request = { DomainName, ...(isPrivate && { CertificateAuthorityArn: authority }) };
  return withIngress((await acm.send(new RequestCertificateCommand(request))).CertificateArn ?? '');
}

/** Creates a bucket for the state, which Pulumi's URL names. */
async function createStateBucket(versioning: 'Enabled' | 'Suspended'): Promise<void> {
  await createBucket('acme-state');
  const body = `<VersioningConfiguration><Status>${versioning}</Status></VersioningConfiguration>`;
  await askMoto(moto, 's3', '/acme-state?versioning', {}, body, 'PUT');
}

/** Creates a key with the alias in KEY, and disables it or schedules its deletion. */
async function createKey(change?: 'disable' | 'delete'): Promise<void> {
  const KeyId = (await kms.send(new CreateKeyCommand({}))).KeyMetadata?.KeyId;
  await kms.send(new CreateAliasCommand({ AliasName: 'alias/state', TargetKeyId: KeyId }));
  if (change === 'disable') await kms.send(new DisableKeyCommand({ KeyId }));
  if (change === 'delete') await kms.send(new ScheduleKeyDeletionCommand({ KeyId }));
}

async function createLogGroup(): Promise<void> {
  const request = new CreateLogGroupCommand({ logGroupName: '/aws/eks/triton-staging/cluster' });
  await new CloudWatchLogsClient({ region: REGION }).send(request);
}

interface State extends Settings {
  name: string;
  /** Variables with which the doctor runs, in addition to those of the mock. */
  env?: () => Record<string, string>;
  /** Makes the state. */
  make?: () => Promise<void>;
  /** Makes a network, and returns the settings with which the stack uses it. */
  makeNetwork?: () => Promise<Settings>;
  /** Lines that are not ok, as "level check". Default: none. */
  finds?: string[];
  /** What the report says of the state, and how to fix it. */
  says?: RegExp[];
}

const STATES: State[] = [
  { name: 'a clean account' },
  {
    name: 'another account than the stack file allows',
    aws: { allowedAccountIds: ['111111111111'] },
    finds: ['error credentials'],
    says: [/account 123456789012 .* aws:allowedAccountIds has 111111111111/, /AWS_PROFILE/],
  },
  { name: 'an account that the stack file allows', aws: { allowedAccountIds: `["${ACCOUNT}"]` } },
  {
    name: 'the account of the role in aws:assumeRoles',
    aws: { assumeRoles: [{ roleArn: `arn:aws:iam::111111111111:role/deploy` }], allowedAccountIds: [ACCOUNT] },
    finds: ['error credentials', 'error GPU quotas', 'error GPU quotas'],
    says: [/account 111111111111 as arn:aws:sts::111111111111:assumed-role\/deploy\/triton-serving-doctor/],
  },
  {
    name: 'a region that is not enabled',
    aws: { region: 'ap-east-1' },
    settings: { availabilityZones: ['ap-east-1a', 'ap-east-1b'], gpuNodePools: [] },
    finds: ['error region'],
    says: [/ap-east-1 is not enabled/, /aws account enable-region --region-name ap-east-1/],
  },
  {
    name: 'a state in a bucket, with a key',
    env: () => STATE,
    file: KEY,
    make: async () => {
      await createStateBucket('Enabled');
      await createKey();
    },
    says: [/s3:\/\/acme-state exists, with versioning/, /alias\/state is enabled/],
  },
  {
    name: 'a state in a bucket that does not exist, and a key that does not exist',
    env: () => STATE,
    file: KEY,
    finds: ['error state', 'error secrets'],
    says: [
      /the bucket of the state, acme-state, does not exist/,
      /aws s3 mb s3:\/\/acme-state --region us-east-1/,
      /the key of the secrets, alias\/state, does not exist in us-east-1/,
    ],
  },
  {
    name: 'a state in a bucket without versioning, which Pulumi.yaml names',
    project: 'name: triton-serving\nruntime: nodejs\nbackend:\n  url: s3://acme-state/folder\n',
    make: () => createStateBucket('Suspended'),
    finds: ['warning state'],
    says: [/acme-state has no versioning/, /aws s3api put-bucket-versioning --bucket acme-state/],
  },
  {
    name: 'a key of the secrets that is disabled',
    file: KEY,
    make: () => createKey('disable'),
    finds: ['error secrets'],
    says: [/is in the state Disabled/, /aws kms enable-key --key-id alias\/state --region us-east-1/],
  },
  {
    name: 'a key of the secrets that will be deleted',
    file: KEY,
    make: () => createKey('delete'),
    finds: ['error secrets'],
    says: [/is in the state PendingDeletion/, /aws kms cancel-key-deletion --key-id alias\/state/],
  },
  {
    name: 'a state in Pulumi Cloud',
    env: () => ({ PULUMI_BACKEND_URL: 'https://api.pulumi.com' }),
    says: [/not checked: it is in https:\/\/api.pulumi.com/],
  },
  {
    name: 'a passphrase',
    file: { encryptionsalt: 'v1:A' },
    says: [/a passphrase encrypts them/],
  },
  {
    name: 'a passphrase of a protected stack',
    settings: { protect: true },
    file: { encryptionsalt: 'v1:A' },
    finds: ['warning secrets'],
    says: [/pulumi stack change-secrets-provider --stack staging 'awskms:/],
  },
  {
    name: 'a zone that does not exist',
    settings: { availabilityZones: ['us-east-1a', 'us-east-1z'] },
    finds: ['error zones', 'warning GPU types'],
    says: [/us-east-1 has no available zone us-east-1z/, /set availabilityZones to zones of us-east-1a/],
  },
  {
    name: 'a zone that EKS refuses',
    settings: { availabilityZones: ['us-east-1a', 'us-east-1e'] },
    finds: ['error zones', 'warning GPU types'],
    says: [/EKS refuses subnets in us-east-1e \(use1-az3\)/, /AWS offers none of g5.xlarge, g5.2xlarge in us-east-1e/],
  },
  {
    name: 'subnets that exist',
    makeNetwork: () => createNetwork(['us-east-1a', 'us-east-1b']),
  },
  {
    name: 'subnets without a way out, for an internal load balancer',
    makeNetwork: async () => {
      const { settings } = await createNetwork(['us-east-1a', 'us-east-1b'], createVpc);
      return {
        settings: {
          ...settings,
          exposure: 'internal-load-balancer',
          clientCidrs: ['10.0.0.0/16'],
          loadBalancerCidrs: ['10.0.0.0/16'],
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
    makeNetwork: async () => {
      const { InternetGateway } = await ec2.send(new CreateInternetGatewayCommand({}));
      const GatewayId = InternetGateway?.InternetGatewayId ?? '';
      return createNetwork(['us-east-1a', 'us-east-1b'], () => createVpc({ GatewayId }));
    },
    finds: ['error subnets', 'error subnets'],
    says: [/leads to the internet gateway igw-\w+, but nodes get no public address there/],
  },
  {
    name: 'a subnet that does not exist',
    makeNetwork: async () => {
      const vpc = await createRoutedVpc();
      return inVpc(vpc, [...(await createSubnets(vpc, 'us-east-1a')), 'subnet-0123']);
    },
    finds: ['error zones'],
    says: [/there is no subnet subnet-0123/],
  },
  {
    name: 'a subnet of another VPC',
    makeNetwork: async () =>
      inVpc(await createRoutedVpc(), await createSubnets(await createRoutedVpc(), 'us-east-1a', 'us-east-1b')),
    finds: ['error zones'],
    says: [/is in another VPC/],
  },
  {
    name: 'subnets in one zone',
    makeNetwork: () => createNetwork(['us-east-1a', 'us-east-1a']),
    finds: ['error zones'],
    says: [/all subnets .* are in one zone/],
  },
  {
    name: 'a subnet in a zone that EKS refuses',
    makeNetwork: () => createNetwork(['us-east-1a', 'us-east-1e']),
    finds: ['error zones', 'warning GPU types'],
    says: [/EKS refuses the subnet subnet-\w+ in us-east-1e/],
  },
  {
    name: 'an instance type that no zone of the stack offers',
    settings: {
      availabilityZones: ['us-east-1a', 'us-east-1b'],
      ...pool({ instanceTypes: ['g5.xlarge', 'p6-b200.48xlarge'], maximumGpus: 8, capacityTypes: ['on-demand'] }),
    },
    make: async () => {
      await grant('L-DB2E81BA', 192);
      await grant('L-417A185B', 192);
    },
    finds: ['warning GPU types'],
    says: [/pool a10g: AWS does not offer p6-b200.48xlarge in us-east-1a, us-east-1b/],
  },
  {
    name: 'a pool of which no zone offers a type',
    settings: {
      availabilityZones: ['us-east-1a', 'us-east-1b'],
      ...pool({ instanceTypes: ['p6-b200.48xlarge'], maximumGpus: 8, capacityTypes: ['on-demand'] }),
    },
    make: () => grant('L-417A185B', 192),
    finds: ['error GPU types'],
    says: [/pool a10g: AWS offers none of p6-b200.48xlarge in us-east-1a, us-east-1b/],
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
    name: 'quota for the replicas of on-demand instances only',
    make: () => grant('L-3819A6DF', 0),
    finds: ['warning GPU quotas'],
    says: [/All G and VT Spot Instance Requests \(L-3819A6DF\): 0 vCPUs, and the pools can request 24"/],
  },
  {
    name: 'quota for fewer nodes than the limit of the pool',
    settings: pool({ maximumGpus: 12 }),
    finds: ['warning GPU quotas', 'warning GPU quotas'],
    says: [/24 vCPUs, and the pools can request 96"/],
  },
  {
    name: 'quota for fewer replicas than the stack has',
    settings: { ...pool({ maximumGpus: 20, capacityTypes: ['on-demand'] }), replicas: 7 },
    finds: ['error GPU quotas'],
    says: [/all quotas together allow 6 of 7 replicas/],
  },
  {
    name: 'no quota for P instances, which was never changed',
    settings: pool({ instanceTypes: ['p5.48xlarge'], maximumGpus: 16 }),
    finds: ['error GPU quotas', 'error GPU quotas'],
    says: [
      /L-417A185B\): 0 vCPUs, and the pools can request 384/,
      /L-C4BD4855\): 0 vCPUs, and the pools can request 384/,
    ],
  },
  {
    name: 'spot instances whose quota has no known code',
    settings: {
      availabilityZones: ['us-east-1a', 'us-east-1c'],
      ...pool({ instanceTypes: ['p6-b200.48xlarge'], maximumGpus: 8 }),
    },
    make: () => grant('L-417A185B', 192),
    finds: ['warning GPU types', 'warning GPU quotas'],
    says: [/the quota for its spot instances is unknown to the doctor/],
  },
  {
    name: 'nodes of Auto Mode, whose driver no source has',
    says: [/CUDA [\d.]+ of the image needs 580 or newer; the driver of nodes of Auto Mode is not known/],
  },
  {
    name: 'an image whose CUDA is not known',
    settings: { ...pool({ mechanism: 'managed-node-group', maximumNodes: 1 }), image: 'REGISTRY/public/image:1' },
    says: [/pool a10g: not known, because the CUDA of \S+public\/image:1 is not in/],
  },
  {
    name: 'nodes whose driver is new enough for the image',
    settings: pool({ mechanism: 'managed-node-group', maximumNodes: 1, ami: 'Bottlerocket' }),
    says: [/Bottlerocket has driver 580, and CUDA [\d.]+ of the image needs 580 or newer/],
  },
  {
    name: 'nodes whose driver is older than the image needs',
    settings: pool({ mechanism: 'managed-node-group', maximumNodes: 1 }),
    make: () => Promise.resolve(void jest.replaceProperty(NODE_DRIVERS, 'AL2023', 570)),
    finds: ['warning GPU driver'],
    says: [/AL2023 has driver 570, but CUDA [\d.]+ of the image needs 580 or newer/, /TRITON_RELEASE/],
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
    name: 'a cluster of the same name',
    make: () => createCluster({ stack: 'other' }),
    finds: ['error cluster name'],
    says: [/triton-staging exists and has none of the tags of this stack/, /set clusterName/],
  },
  {
    name: 'the cluster of this stack, which got a tag more since',
    aws: { defaultTags: { tags: { ...TAGS, team: 'vision' } } },
    make: () => createCluster(TAGS),
    finds: ['warning cluster name'],
    says: [/which is correct only if this stack created it/],
  },
  {
    name: 'a cluster of the same name, and a stack without tags',
    aws: { defaultTags: {} },
    make: () => createCluster({}),
    finds: ['warning cluster name'],
    says: [/triton-staging exists, which is correct only if this stack created it/],
  },
  {
    name: 'the cluster of this stack, which the caller administers',
    make: async () => {
      await createCluster(TAGS);
      await createLogGroup();
      await admit(CALLER);
    },
  },
  {
    name: 'the cluster of this stack, without the access entry of a listed role',
    settings: { clusterAdmins: [`arn:aws:iam::${ACCOUNT}:role/admin`, 'arn:aws:iam::111111111111:role/other'] },
    make: async () => {
      await createCluster(TAGS);
      await createRole('admin');
      for (const arn of [CALLER, 'arn:aws:iam::111111111111:role/other']) await admit(arn);
    },
    finds: ['warning cluster access'],
    says: [
      /clusterAdmins has arn:aws:iam::123456789012:role\/admin, which has no access entry of triton-staging/,
      /pulumi up --stack staging --refresh/,
      /arn:aws:iam::111111111111:role\/other has an access entry/,
    ],
  },
  {
    name: 'the cluster of this stack, without access of the roles of CI',
    settings: { clusterViewers: [`arn:aws:iam::${ACCOUNT}:role/ci-triton-staging-drift`] },
    make: async () => {
      await createCluster(TAGS);
      for (const role of ['deploy', 'drift', 'preview']) await createRole(`ci-triton-staging-${role}`);
      for (const arn of [CALLER, `arn:aws:iam::${ACCOUNT}:role/ci-triton-staging-drift`]) await admit(arn);
    },
    finds: ['warning CI roles', 'warning CI roles'],
    says: [
      /--path 'clusterAdmins\[0\]' arn:aws:iam::123456789012:role\/ci-triton-staging-deploy/,
      /--path 'clusterViewers\[1\]' arn:aws:iam::123456789012:role\/ci-triton-staging-preview/,
    ],
  },
  {
    name: 'no cluster, and a role of CI that may use only a cluster that CI creates',
    make: () => createRole('ci-triton-staging-deploy'),
    finds: ['warning CI roles'],
    says: [/unless this role creates the cluster: pulumi config set --stack staging --path 'clusterAdmins\[0\]'/],
  },
  {
    name: 'the cluster of this stack, without an access entry of the caller',
    make: () => createCluster(TAGS),
    finds: ['error cluster access'],
    says: [/user\/moto has no access entry of triton-staging/, /add the role to clusterAdmins/],
  },
  {
    name: 'a log group that EKS created again after a destroy',
    make: createLogGroup,
    finds: ['error log group'],
    says: [/aws logs delete-log-group --log-group-name \/aws\/eks\/triton-staging\/cluster --region us-east-1/],
  },
  {
    name: 'a Kubernetes API that admits only the VPC that the stack creates',
    settings: { publicAccessCidrs: [] },
    finds: ['warning own address'],
    says: [/the VPC, which does not exist yet/, /pulumi config set --stack staging --path 'publicAccessCidrs\[0\]' /],
  },
  {
    name: 'a Kubernetes API that admits only a VPC that exists',
    makeNetwork: async () => {
      const { settings } = await createNetwork(['us-east-1a', 'us-east-1b']);
      return { settings: { ...settings, publicAccessCidrs: [] } };
    },
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
    says: [/not checked: GET http:\/\/127.0.0.1:9\/: ECONNREFUSED/],
  },
  {
    name: 'a server that reports no address',
    settings: { publicAccessCidrs: ['198.51.100.0/24'] },
    env: () => ({ TRITON_CHECKIP_URL: `${internet.url}/other` }),
    finds: ['warning own address'],
    says: [/not checked: http:\/\/127.0.0.1:\d+\/other answered 404 without an IPv4 address/],
  },
  {
    name: 'a server without TLS that would report the address',
    settings: { publicAccessCidrs: ['198.51.100.0/24'] },
    env: () => ({ TRITON_CHECKIP_URL: 'http://checkip.example' }),
    finds: ['warning own address'],
    says: [/not checked: http:\/\/checkip.example is not the address of a server with TLS/],
  },
  {
    name: 'an identity provider of the issuer, which the stack would create',
    make: () => createProvider('sts.amazonaws.com'),
    finds: ['error OIDC provider'],
    says: [/exists already/, /pulumi config set --stack staging createPublisherOidcProvider false/],
  },
  {
    name: 'an identity provider of the issuer, which the stack looks up',
    settings: { createPublisherOidcProvider: false },
    make: () => createProvider('sts.amazonaws.com'),
  },
  {
    name: 'no identity provider of the issuer, which the stack looks up',
    settings: { createPublisherOidcProvider: false },
    finds: ['error OIDC provider'],
    says: [/in one stack of the account: pulumi config set --stack staging createPublisherOidcProvider true/],
  },
  {
    name: 'the identity provider that this stack left behind when it was destroyed',
    make: () => createProvider('sts.amazonaws.com', TAGS),
    finds: ['error OIDC provider'],
    says: [/createPublisherOidcProvider false/],
  },
  {
    name: 'the identity provider of this stack',
    make: async () => {
      await createCluster(TAGS);
      await admit(CALLER);
      await createProvider('sts.amazonaws.com', TAGS);
    },
  },
  {
    name: 'the identity provider that the stack file names',
    settings: { createPublisherOidcProvider: false, publisherOidcProviderArn: PROVIDER },
    make: () => createProvider('sts.amazonaws.com'),
  },
  {
    name: 'an identity provider that does not exist',
    settings: { createPublisherOidcProvider: false, publisherOidcProviderArn: PROVIDER },
    finds: ['error OIDC provider'],
    says: [
      /aws iam create-open-id-connect-provider --url https:\/\/token.actions.githubusercontent.com --client-id-list/,
    ],
  },
  {
    name: 'an identity provider of another account',
    settings: {
      createPublisherOidcProvider: false,
      publisherOidcProviderArn: PROVIDER.replace(ACCOUNT, '111111111111'),
    },
    finds: ['error OIDC provider'],
    says: [/but the account is 123456789012/],
  },
  {
    name: 'an identity provider without the audience',
    settings: { createPublisherOidcProvider: false, publisherOidcProviderArn: PROVIDER },
    make: () => createProvider('other'),
    finds: ['error OIDC provider'],
    says: [
      /has the audiences other, but tokens have sts.amazonaws.com/,
      /aws iam add-client-id-to-open-id-connect-provider/,
    ],
  },
  {
    name: 'a subject without ids',
    settings: { publisherSubjects: ['repo:acme/models:environment:staging'] },
    finds: ['warning publisher subjects'],
    says: [/gh api \/repos\/OWNER\/NAME\/actions\/oidc\/customization\/sub/],
  },
  {
    name: 'the example subject',
    settings: { publisherSubjects: ['repo:-your-organisation-/triton-serving:environment:staging'] },
    finds: ['warning publisher subjects'],
    says: [/set publisherSubjects to the subject of a job of your repository/],
  },
  {
    name: 'the example subject of the job that prunes',
    settings: {
      agentImage: `REGISTRY/public/image:2@${IMAGE_DIGEST}`,
      prunerSubjects: ['repo:-your-organisation-/triton-serving:environment:staging-prune'],
    },
    finds: ['warning publisher subjects'],
    says: [/set prunerSubjects to the subject of a job of your repository/],
  },
  {
    name: 'an administrator that does not exist',
    settings: { clusterAdmins: [`arn:aws:iam::${ACCOUNT}:role/admin`] },
    finds: ['error roles'],
    says: [/clusterAdmins has arn:aws:iam::123456789012:role\/admin, which does not exist/],
  },
  {
    name: 'a viewer that does not exist',
    settings: { clusterViewers: [`arn:aws:iam::${ACCOUNT}:role/drift`] },
    finds: ['error roles'],
    says: [/clusterViewers has arn:aws:iam::123456789012:role\/drift, which does not exist/],
  },
  {
    name: 'an administrator without the path of its role',
    settings: { clusterAdmins: [`arn:aws:iam::${ACCOUNT}:role/admin`] },
    make: () => createRole('admin', '/team/'),
    finds: ['error roles'],
    says: [/but the role is arn:aws:iam::123456789012:role\/team\/admin/],
  },
  {
    name: 'roles that exist',
    settings: {
      clusterAdmins: [`arn:aws:iam::${ACCOUNT}:role/team/admin`, 'arn:aws:iam::111111111111:role/other'],
      bucketReaders: [`arn:aws:iam::${ACCOUNT}:role/reader`],
    },
    make: async () => {
      await createRole('admin', '/team/');
      await createRole('reader');
    },
  },
  {
    name: 'no service-linked role for spot instances of another Karpenter',
    settings: {
      cluster: 'existing',
      kubeconfig: 'config',
      availabilityZones: [],
      oidcProviderArn: `arn:aws:iam::${ACCOUNT}:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/A`,
      ...pool({ mechanism: 'karpenter', nodeClass: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'gpu' } }),
    },
    finds: ['warning spot role'],
    says: [/aws iam create-service-linked-role --aws-service-name spot.amazonaws.com/],
  },
  {
    name: 'a bucket that does not exist',
    settings: { bucketName: 'acme-models' },
    finds: ['error bucket'],
    says: [/acme-models does not exist/, /aws s3 mb s3:\/\/acme-models --region us-east-1/],
  },
  {
    name: 'a bucket that exists',
    settings: { bucketName: 'acme-models' },
    make: () => createBucket('acme-models'),
  },
  {
    name: 'a certificate of ACM for the host of the Ingress',
    makeNetwork: () => requestCertificate('*.example.com', true),
    says: [/is issued for triton\.example\.com, until/],
  },
  {
    name: 'a certificate of ACM that is not validated, for another host',
    makeNetwork: () => requestCertificate('example.com', false),
    finds: ['error certificate', 'error certificate'],
    says: [/its domain is not validated/, /is for example\.com, so clients refuse it for triton\.example\.com/],
  },
  {
    name: 'a certificate of ACM that does not exist',
    ...withIngress(`arn:aws:acm:${REGION}:${ACCOUNT}:certificate/12345678-1234-1234-1234-123456789012`),
    finds: ['error certificate'],
    says: [/does not exist/, /aws acm list-certificates/],
  },
  {
    name: 'a certificate of ACM in another region',
    ...withIngress(`arn:aws:acm:eu-west-1:${ACCOUNT}:certificate/12345678-1234-1234-1234-123456789012`),
    finds: ['error certificate'],
    says: [/is in eu-west-1 of 123456789012, but the load balancer in us-east-1 of 123456789012/],
  },
  {
    name: 'an Ingress with something else than a certificate',
    ...withIngress('arn:aws:iam::123456789012:server-certificate/a'),
    finds: ['error certificate'],
    says: [/is not the ARN of a certificate/],
  },
  {
    name: 'images that exist',
    settings: { image: `REGISTRY/public/image:1@${IMAGE_DIGEST}`, agentImage: 'REGISTRY/public/image:2' },
    says: [
      new RegExp(`public/image:1@${IMAGE_DIGEST} exists, with the digest ${IMAGE_DIGEST}"`),
      new RegExp(`public/image:2 exists, with the digest ${IMAGE_DIGEST}"`),
    ],
  },
  {
    name: 'an image that does not exist',
    settings: { image: 'REGISTRY/public/empty:1' },
    finds: ['error images'],
    says: [/public\/empty:1 does not exist, so nodes cannot pull it/, /correct image in the stack file/],
  },
  {
    name: 'an image for which the registry gives no token',
    settings: { image: 'REGISTRY/private/image:1' },
    finds: ['warning images'],
    says: [/private\/image:1 is not checked: 127.0.0.1:\d+ admits no client without an account \(HTTP 401\)/],
  },
  {
    name: 'an image that the registry denies',
    settings: { image: 'REGISTRY/denied/image:1' },
    finds: ['warning images'],
    says: [/denied\/image:1 is not checked: 127.0.0.1:\d+ admits no client without an account \(HTTP 403\)/],
  },
  {
    name: 'a registry that fails',
    settings: { image: 'REGISTRY/broken/image:1' },
    finds: ['warning images'],
    says: [/broken\/image:1 is not checked: 127.0.0.1:\d+ answers HTTP 500/],
  },
  {
    name: 'a registry that cannot be reached',
    settings: { image: '127.0.0.1:9/public/image:1' },
    finds: ['warning images'],
    says: [/is not checked: HEAD http:\/\/127.0.0.1:9\/v2\/public\/image\/manifests\/1: ECONNREFUSED/],
  },
  {
    name: 'a disk that is larger than the local storage of one type',
    settings: pool({ diskGiB: 300 }),
    finds: ['warning local storage'],
    says: [
      /pool a10g: diskGiB \(300\) is at least as large as the local NVMe storage of g5.xlarge \(232 GiB\), so these nodes/,
    ],
  },
];

test.each(STATES)('names $name', async ({ settings, env, make, makeNetwork, finds = [], says = [], ...stack }) => {
  isClean = make === undefined && makeNetwork === undefined;
  await make?.();
  const made = await makeNetwork?.();
  const { code, lines, text } = await examine({ ...stack, settings: { ...settings, ...made?.settings } }, env?.());
  expect(findings(lines)).toEqual(finds);
  for (const pattern of says) expect(text).toMatch(pattern);
  for (const line of lines) expect(line.level === 'ok').toBe(line.fix === undefined);
  expect(code).toBe(finds.some((line) => line.startsWith('error')) ? 1 : 0);
});

/** With the keys of a user whose rights the mock checks. */
describe('the rights of the doctor', () => {
  const USER = 'doctor';
  const BUCKET = 'acme-models';
  let keys: Record<string, string>;
  /** A stack before its first "pulumi up", and one after it, in an existing network. */
  let before: Settings;
  let after: Settings;

  beforeEach(async () => {
    isClean = false;
    await iam.send(new CreateUserCommand({ UserName: USER }));
    const { AccessKey } = await iam.send(new CreateAccessKeyCommand({ UserName: USER }));
    keys = { AWS_ACCESS_KEY_ID: AccessKey?.AccessKeyId ?? '', AWS_SECRET_ACCESS_KEY: AccessKey?.SecretAccessKey ?? '' };
    await createBucket(BUCKET);
    await createStateBucket('Enabled');
    await createKey();
    await createRole('admin');
    await createCluster(TAGS);
    await admit(`arn:aws:iam::${ACCOUNT}:user/${USER}`);
    const admins = { clusterAdmins: [`arn:aws:iam::${ACCOUNT}:role/admin`] };
    const { settings: ingress } = await requestCertificate(HOST, true);
    before = { settings: { ...ingress, ...admins, clusterName: 'new', bucketName: BUCKET } };
    after = {
      ...(await createNetwork(['us-east-1a', 'us-east-1b'])),
      file: KEY,
      project: `name: triton-serving\nbackend: { url: '${STATE.PULUMI_BACKEND_URL}' }\n`,
    };
  });

  const examineWith = async (stack: Settings, rights: readonly string[]) => {
    await tellMoto('reset-auth', 'inf');
    const policy = {
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: rights, Resource: '*' }],
    };
    const request = { UserName: USER, PolicyName: USER, PolicyDocument: JSON.stringify(policy) };
    await iam.send(new PutUserPolicyCommand(request));
    await tellMoto('reset-auth', '0');
    return examine(stack, keys);
  };

  test('are sufficient', async () => {
    expect(findings((await examineWith(before, RIGHTS)).lines)).toEqual([]);
    expect(findings((await examineWith(after, RIGHTS)).lines)).toEqual([]);
  });

  test('include the right to list the bucket of the state, without which Pulumi fails', async () => {
    const { code, lines } = await examineWith(
      after,
      RIGHTS.filter((right) => right !== 's3:ListBucket'),
    );
    expect({ code, findings: findings(lines) }).toEqual({ code: 1, findings: ['error state'] });
    expect(lines.find(({ check }) => check === 'state')?.found).toMatch(/acme-state, denies s3:ListBucket/);
  });

  test('are all needed, and a check that lacks one is a warning that names it', async () => {
    const OF_AFTER = [
      'ec2:DescribeRouteTables',
      'ec2:DescribeSubnets',
      'eks:ListAccessEntries',
      'kms:DescribeKey',
      's3:GetBucketVersioning',
    ];
    for (const right of RIGHTS) {
      const rest = RIGHTS.filter((one) => one !== right);
      const { code, lines } = await examineWith(OF_AFTER.includes(right) ? after : before, rest);
      const affected = lines.filter(({ level }) => level !== 'ok');
      expect({ right, code, affected: affected.length > 0 }).toEqual({ right, code: 0, affected: true });
      for (const { level, found } of affected) {
        expect(level).toBe('warning');
        // The mock denies this right in XML, and ACM in JSON.
        const lacks =
          right === 'acm:DescribeCertificate'
            ? `the request for ${right} failed`
            : `the caller lacks the right ${right}`;
        expect(found).toContain(`not checked: ${lacks}`);
      }
    }
  });
});

describeUnless(whyNoGo(['crane']), 'a registry without tokens', () => {
  test('reports the digest of an image, and a missing tag', async () => {
    const quiet = new Progress(process.stderr, true).step('');
    const [crane, { python }] = await Promise.all([buildCrane(quiet), ensurePython(quiet)]);
    const registry = await startRegistry(scratch, crane, python);
    const { digest } = await pushImage(registry, 'team/image', '1');
    const present = await examine({ settings: { image: `${registry.host}/team/image:1` } });
    expect([findings(present.lines), present.text]).toEqual([[], expect.stringContaining(digest)]);
    const missing = await examine({ settings: { image: `${registry.host}/team/image:2` } });
    expect(findings(missing.lines)).toEqual(['error images']);
  }, 600_000);
});

test('credentials that AWS rejects are an error, and the checks that need them are warnings', async () => {
  isClean = false;
  await tellMoto('reset-auth', '0');
  const { code, lines } = await examine({}, { AWS_ACCESS_KEY_ID: 'unknown' });
  expect(code).toBe(1);
  expect(lines.find(({ check }) => check === 'credentials')).toMatchObject({
    level: 'error',
    found: expect.stringMatching(/not checked: AWS rejects the credentials: InvalidClientTokenId/) as string,
  });
  expect(lines.find(({ check }) => check === 'zones')).toMatchObject({
    level: 'warning',
    found: expect.stringMatching(/not checked: AWS rejects the credentials: AuthFailure/) as string,
  });
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
    expect(lines.length).toBeGreaterThan(10);
  } finally {
    await silent.stop();
  }
});
