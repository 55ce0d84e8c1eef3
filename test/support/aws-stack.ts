import {
  ensureKubernetesPlugin,
  findInstalledPlugin,
  packageVersion,
  type ResourcePlugin,
} from '../../tools/toolchain/pulumi';
import { ControlPlane } from './control-plane';
import { defineStubCrds } from './stub-crds';
import { defineKarpenterKinds, keepPoolsReady } from './karpenter';
import { readCiPolicy, permissionsFor } from './aws-permissions';
import { decide, type Call } from './iam';
import { passOn } from './loopback';
import { askMoto, createGithubProvider, testMoto, type Moto } from './moto';
import { startScriptedProxy, type ScriptedProxy, type ProxiedRequest } from './scripted-proxy';
import type { Scratch } from './temp-dir';
import { TestStack, type StackConfig, whyNoEngines } from './stack';

/** Where and when the provider of Pulumi sent its requests. */
interface RequestContext {
  account: string;
  region: string;
  stack: string;
  /** Whether IAM knows the tags of the keys. They may take five minutes to affect authorization, so a new key has none. */
  tagged: boolean;
}

/** Parameters of S3 requests about a bucket -> the action without its verb. */
const BUCKET_PARTS: Readonly<Record<string, string>> = {
  accelerate: 'AccelerateConfiguration',
  acl: 'BucketAcl',
  cors: 'BucketCORS',
  encryption: 'EncryptionConfiguration',
  lifecycle: 'LifecycleConfiguration',
  location: 'BucketLocation',
  logging: 'BucketLogging',
  notification: 'BucketNotification',
  'object-lock': 'BucketObjectLockConfiguration',
  ownershipControls: 'BucketOwnershipControls',
  policy: 'BucketPolicy',
  publicAccessBlock: 'BucketPublicAccessBlock',
  replication: 'ReplicationConfiguration',
  requestPayment: 'BucketRequestPayment',
  tagging: 'BucketTagging',
  versioning: 'BucketVersioning',
  website: 'BucketWebsite',
};

/** Paths of the EKS API, without those of managed node groups -> actions by method. */
const EKS: readonly (readonly [RegExp, Readonly<Record<string, string>>])[] = [
  [/^\/clusters$/, { POST: 'CreateCluster' }],
  [/^\/clusters\/[^/]+$/, { GET: 'DescribeCluster', DELETE: 'DeleteCluster' }],
  [/^\/clusters\/[^/]+\/update-config$/, { POST: 'UpdateClusterConfig' }],
  [/\/updates\/[^/]+$/, { GET: 'DescribeUpdate' }],
  [/\/access-entries$/, { POST: 'CreateAccessEntry' }],
  [/\/access-policies$/, { GET: 'ListAssociatedAccessPolicies', POST: 'AssociateAccessPolicy' }],
  [/\/access-policies\/.+$/, { DELETE: 'DisassociateAccessPolicy' }],
  [/\/access-entries\/.+$/, { GET: 'DescribeAccessEntry', DELETE: 'DeleteAccessEntry' }],
];

/**
 * The permissions that AWS requires for a request of the provider.
 * @throws for a request that this function does not know
 */
function awsPermissionsFor(request: ProxiedRequest, at: RequestContext): Call[] {
  const { method, path, headers, body } = request;
  const [, service = ''] = /Credential=[^/]+\/\d+\/[^/]+\/([^/]+)\//.exec(headers.authorization ?? '') ?? [];
  const context = { 'aws:RequestedRegion': at.region };
  const arn = (of: string, rest: string): string => `arn:aws:${of}:${at.region}:${at.account}:${rest}`;
  const target = String(headers['x-amz-target'] ?? '').split('.')[1] ?? '';
  switch (service) {
    case 's3':
      return ofS3(request, at);
    case 'kms':
      return ofKms(target, JSON.parse(body) as KmsRequest, at);
    case 'eks': {
      const { pathname } = new URL(path, 'http://eks');
      const action = EKS.find(([pattern]) => pattern.test(pathname))?.[1][method];
      if (action === undefined) break;
      return [{ action: `eks:${action}`, resource: arn('eks', `cluster/triton-${at.stack}`), context }];
    }
    case 'logs':
      return [{ action: `logs:${target}`, resource: arn('logs', 'log-group:/aws/eks/any:*'), context }];
    case 'sts':
      // Needs no permission.
      return [];
    case 'ec2':
    case 'iam': {
      const form = new URLSearchParams(body);
      const role = form.get('RoleName');
      const issuer =
        form.get('OpenIDConnectProviderArn') ??
        `arn:aws:iam::${at.account}:oidc-provider/oidc.eks.${at.region}.amazonaws.com/id/1`;
      const resource =
        service === 'ec2' ? arn('ec2', 'any/1') : role === null ? issuer : `arn:aws:iam::${at.account}:role/${role}`;
      const policy = form.get('PolicyArn');
      const ofPolicy: Record<string, string> = policy === null ? {} : { 'iam:PolicyARN': policy };
      return [{ action: `${service}:${form.get('Action') ?? ''}`, resource, context: { ...context, ...ofPolicy } }];
    }
  }
  throw new Error(`which permissions ${service} ${method} ${path} ${target} needs is not known here`);
}

function ofS3(request: ProxiedRequest, at: RequestContext): Call[] {
  const { method, path, headers } = request;
  const { pathname, searchParams } = new URL(path, 'http://s3');
  const [bucket = '', key = ''] = pathname.slice(1).split('/');
  const resource = `arn:aws:s3:::${bucket}`;
  if (bucket === 'v20180820') {
    const [action, target] = [method === 'GET' ? 'ListTagsForResource' : 'TagResource', decodeURIComponent(pathname)];
    return [{ action: `s3:${action}`, resource: target.slice(target.indexOf('arn:')) }];
  }
  const part = [...searchParams.keys()].map((name) => BUCKET_PARTS[name]).find((name) => name !== undefined);
  const verb = method === 'GET' ? 'Get' : 'Put';
  if (key === '' && part !== undefined) {
    return [{ action: `s3:${method === 'DELETE' && part === 'BucketPolicy' ? 'Delete' : verb}${part}`, resource }];
  }
  if (key === '' && searchParams.has('versions')) return [{ action: 's3:ListBucketVersions', resource }];
  if (key === '' && method === 'DELETE') return [{ action: 's3:DeleteBucket', resource }];
  if (key === '' && method === 'PUT')
    return ['CreateBucket', 'TagResource'].map((action) => ({ action: `s3:${action}`, resource }));
  if (searchParams.has('tagging'))
    return [{ action: `s3:${verb}ObjectTagging`, resource: `arn:aws:s3:::${pathname.slice(1)}` }];
  const kmsKey = `arn:aws:kms:${at.region}:${at.account}:key/1`;
  return permissionsFor({ ...request, headers }, kmsKey).map((call) =>
    call.resource === kmsKey
      ? { ...call, context: { ...ofKey(at), 'kms:EncryptionContext:aws:s3:arn': resource } }
      : call,
  );
}

interface KmsRequest {
  Tags?: { TagKey: string; TagValue: string }[];
}

const ofKey = ({ tagged, stack }: RequestContext): NonNullable<Call['context']> =>
  tagged ? { 'aws:ResourceTag/stack': stack } : {};

function ofKms(name: string, { Tags = [] }: KmsRequest, at: RequestContext): Call[] {
  const call = { action: `kms:${name}`, resource: `arn:aws:kms:${at.region}:${at.account}:key/1`, context: ofKey(at) };
  const tags = Object.fromEntries(Tags.map(({ TagKey, TagValue }) => [`aws:RequestTag/${TagKey}`, TagValue]));
  if (name !== 'CreateKey') return [{ ...call, context: { ...call.context, ...tags } }];
  // A key that is being created has no ARN and no tags that a condition could compare.
  return [
    { action: call.action, resource: '*' },
    ...(Tags.length === 0 ? [] : [{ action: 'kms:TagResource', resource: call.resource, context: tags }]),
  ];
}

export interface AwsStack {
  plane: ControlPlane;
  moto: Moto;
  stack: TestStack;
  /** Between the providers and the mock. */
  tap: ScriptedProxy;
}

const awsPlugin = () => findInstalledPlugin('aws', packageVersion('@pulumi/aws'));

/** Why this machine cannot run such a stack; undefined if it can. */
export function whyNoAwsStack(): string | undefined {
  if (awsPlugin() !== undefined) return whyNoEngines('karpenter');
  return `Pulumi's AWS plugin is not installed: pulumi plugin install resource aws ${packageVersion('@pulumi/aws')}`;
}

/** The providers of AWS and Kubernetes. */
export async function awsPlugins(): Promise<ResourcePlugin[]> {
  const aws = awsPlugin();
  if (aws === undefined) throw new Error('tests are to ask whyNoAwsStack first');
  return [aws, await ensureKubernetesPlugin()];
}

export interface AwsStackOptions {
  /** Keys of the stack file that differ from the one in the repository. */
  config?: StackConfig;
  /** Additional labels of the nodes for Triton. */
  nodeLabels?: Record<string, string>;
  /** Whether KWOK reports pods as Ready; otherwise the test runs them. */
  simulatePods?: boolean;
}

/** Address range from which the tests pretend to connect. */
export const HERE = '52.9.8.7/32';

/**
 * Creates a stack of this project with the real AWS provider on a mock of AWS. Its Kubernetes resources go to a real
 * control plane with three nodes for Triton, because machines of the mock never join. As in AWS, the Kubernetes API is
 * reachable from outside only while the cluster has a public endpoint. Nothing is deployed yet.
 */
export async function awsStack(
  scratch: Scratch,
  name: string,
  { config = {}, nodeLabels = {}, simulatePods = true }: AwsStackOptions = {},
): Promise<AwsStack> {
  const plane = await ControlPlane.start(scratch, { simulatePods });
  // EKS Auto Mode has both.
  await defineKarpenterKinds(plane);
  await defineStubCrds(plane, ['eks.amazonaws.com']);
  keepPoolsReady(plane, scratch);
  for (const index of [0, 1, 2]) {
    await plane.addGpuNode(`gpu-${index}`, { labels: { 'triton-serving/gpu': 'true', ...nodeLabels } });
  }
  // The gate queries the mock, and the mock returns the address of the gate.
  const isPublic = async (): Promise<boolean> => {
    const { cluster } = JSON.parse(await askMoto(moto, 'eks', `/clusters/triton-${name}`)) as {
      cluster: { resourcesVpcConfig: { endpointPublicAccess: boolean } };
    };
    return cluster.resourcesVpcConfig.endpointPublicAccess;
  };
  const gate = await passOn(Number(new URL(plane.access.server).port), isPublic);
  scratch.defer(gate.stop);
  const moto = await testMoto(scratch, plane.access, `https://127.0.0.1:${gate.port}`);
  if ('publisherSubjects' in config) await createGithubProvider(moto);
  const tap = await startScriptedProxy(moto.endpoint);
  scratch.defer(() => tap.stop());
  const options = { plugins: await awsPlugins(), config, env: { ...moto.env, AWS_ENDPOINT_URL: tap.endpoint } };
  return { plane, moto, tap, stack: await TestStack.create(scratch, name, options) };
}

/**
 * The requests since the last call that a role of CI may not send. `new`: its keys were created a moment ago, so IAM does
 * not know their tags yet.
 */
export function refusedRequests({ tap, stack }: AwsStack, role: 'deploy' | 'preview', age: 'new' | 'old'): string[] {
  const at = { account: '123456789012', region: 'us-east-1', stack: stack.name, tagged: age === 'old' };
  const policy = readCiPolicy(role, at);
  const calls = tap.requests.splice(0).flatMap((request) => awsPermissionsFor(request, at));
  if (calls.length === 0) throw new Error('no request of the provider was recorded');
  const refused = calls.filter((call) => decide([policy], call) !== 'allowed');
  return [...new Set(refused.map(({ action, resource }) => `${action} ${resource}`))].sort();
}

/** Expects that the output of a preview or an update reports a policy pack without violations. */
export function expectPolicyPackPassed(printed: string): void {
  expect(printed).toMatch(
    /Policy Packs run:\s+Name\s+Version\s+triton-serving\S*\s+\d|Policies:\s+✅ triton-serving@v\d/,
  );
  expect(printed).not.toMatch(/\[(mandatory|advisory)\]|can't run policy/);
}

/** Expects that neither an update nor a refresh of a stack finds a change. */
export async function expectNoChanges(stack: TestStack): Promise<void> {
  await stack.up('--expect-no-changes');
  await stack.pulumi('refresh', '--stack', stack.name, '--yes', '--skip-preview', '--expect-no-changes');
  await stack.up('--expect-no-changes');
}

/** Types and names of the resources that an update or a destroy deleted, in that order, from Pulumi's output. */
export function deletions(printed: string): string[] {
  return [...printed.matchAll(/^ - +(\S+) (\S+) deleted(?: original)? /gm)].map(([, type, name]) => `${type} ${name}`);
}

/** Expects that the first lines which match each of `parts` are in this order. */
export function expectInOrder(lines: readonly string[], parts: readonly RegExp[]): void {
  const places = parts.map((part) => lines.findIndex((line) => part.test(line)));
  expect(places.map((place, index) => (place < 0 ? `no ${parts[index]}` : ''))).toEqual(parts.map(() => ''));
  expect(places).toEqual([...places].sort((a, b) => a - b));
}
