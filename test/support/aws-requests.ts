import type { Call } from './iam';
import type { RecordedRequest } from './recording-proxy';
import { permissionsFor } from './s3-permissions';

/** Where and when the provider of Pulumi sent its requests. */
export interface RequestContext {
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

/** Paths of the EKS API -> actions by method. */
const EKS: readonly (readonly [RegExp, Readonly<Record<string, string>>])[] = [
  [/^\/clusters$/, { POST: 'CreateCluster' }],
  [/^\/clusters\/[^/]+$/, { GET: 'DescribeCluster', DELETE: 'DeleteCluster' }],
  [/^\/clusters\/[^/]+\/update-config$/, { POST: 'UpdateClusterConfig' }],
  [/\/updates\/[^/]+$/, { GET: 'DescribeUpdate' }],
  [/\/node-groups$/, { POST: 'CreateNodegroup' }],
  [/\/node-groups\/[^/]+$/, { GET: 'DescribeNodegroup', DELETE: 'DeleteNodegroup' }],
  [/\/node-groups\/[^/]+\/update-config$/, { POST: 'UpdateNodegroupConfig' }],
  [/\/node-groups\/[^/]+\/update-version$/, { POST: 'UpdateNodegroupVersion' }],
  [/\/addons$/, { POST: 'CreateAddon' }],
  [/^\/clusters\/[^/]+\/addons\/[^/]+$/, { GET: 'DescribeAddon', DELETE: 'DeleteAddon' }],
  [/\/addons\/[^/]+\/update$/, { POST: 'UpdateAddon' }],
  [/^\/addons\/supported-versions$/, { GET: 'DescribeAddonVersions' }],
  [/\/access-entries$/, { POST: 'CreateAccessEntry' }],
  [/\/access-policies$/, { GET: 'ListAssociatedAccessPolicies', POST: 'AssociateAccessPolicy' }],
  [/\/access-policies\/.+$/, { DELETE: 'DisassociateAccessPolicy' }],
  [/\/access-entries\/.+$/, { GET: 'DescribeAccessEntry', POST: 'UpdateAccessEntry', DELETE: 'DeleteAccessEntry' }],
];

/**
 * The permissions that AWS requires for a request of the provider.
 * @throws for a request that this function does not know
 */
export function awsPermissionsFor(request: RecordedRequest, at: RequestContext): Call[] {
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

function ofS3(request: RecordedRequest, at: RequestContext): Call[] {
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
