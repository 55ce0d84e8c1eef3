import { UserError } from '../../src/core/errors';
import { BAKE_DEFAULTS } from '../../src/release/bake';
import { parseLocation } from '../../src/release/location';
import { cidrFault, containsRange } from '../network/cidr';
import { ALLOWED_VERSIONS, versionFault } from '../cluster/eks-versions';
import { isKubeconfigText } from '../cluster/kubeconfig';
import { isExactSubject } from '../trust-subject';
import { iamArn } from '../iam/arn';
import {
  choice,
  flag,
  group,
  integer,
  list,
  number,
  text,
  texts,
  type Fields,
  type TextCheck,
  type TextFault,
} from './fields';
import { checkUrl, IDENTITY_PROVIDER, KMS_KEY } from './formats';
import { POOL_FIELDS } from './pool-fields';

/** Retention periods of CloudWatch, in days. */
const LOG_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

const PRIVATE_RANGES = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'];

/** Rejects a range that is larger than a network of administrators, and private ranges, which EKS refuses. */
function closedCidrFault(text: string): TextFault | undefined {
  if (PRIVATE_RANGES.some((range) => containsRange(range, text))) {
    return {
      reason: 'EKS refuses private addresses',
      hint: 'list the addresses that your administrators and CI have on the internet; an empty list allows the VPC only',
    };
  }
  if (!/\/[0-7]$/.test(text)) return cidrFault(text);
  return {
    reason: text.endsWith('/0') ? 'it contains every address' : 'it has more than 16 million addresses',
    hint: 'list the addresses of your administrators and CI; an empty list allows the VPC only',
  };
}

/** Settings of network, cluster and nodes. */
const CLUSTER_FIELDS = {
  protect: flag(
    'Whether Pulumi refuses to delete or replace the cluster, the namespace of the replicas, the buckets of models and access logs, the log groups, the KMS keys and the roles of publishers. To delete one of these resources, or for a stack of experiments, set it to false and run "pulumi up" first. With false, "pulumi destroy" deletes the created buckets with all models and logs in them.',
    { default: true },
  ),
  logDays: integer(
    'Days for which AWS keeps the logs of the stack: flow logs of the created VPC, logs of the control plane, which include the audit log, and access logs of the created bucket.',
    { minimum: 1, maximum: 3653, choices: LOG_DAYS, default: 365 },
  ),
  privateSubnetIds: texts(
    'Ids of at least two private subnets of an existing VPC, in different zones. They need NAT for outgoing traffic; an S3 gateway endpoint saves the NAT fee for models. A change deletes or replaces the network of a live stack, so change clusterName in the same step. Empty: a VPC is created.',
    { pattern: /^subnet-[0-9a-f]+$/, allowed: 'an id, "subnet-0123456789abcdef0"', default: [] },
  ),
  vpcCidr: text(
    'IPv4 range of the created VPC. A change replaces the network and everything in it, so change clusterName in the same step.',
    { check: cidrFault, allowed: 'an IPv4 range from /16 to /20, "10.0.0.0/16"', default: '10.0.0.0/16' },
  ),
  availabilityZones: texts(
    'Availability zones of the created VPC: 2 to 6, usually 3. A zone can be added or removed later; the subnets of the others stay.',
    { pattern: /^[a-z]{2,4}(-[a-z]+)+-\d{1,2}[a-g]$/, allowed: 'a zone, "us-east-1a"', default: [] },
  ),
  natGateways: choice(
    'NAT gateways of the created VPC, through which nodes pull images: one for all zones (cheaper), or one per zone (keeps working when a zone fails).',
    { choices: ['one', 'per-zone'], default: 'per-zone' },
  ),
  clusterName: text(
    'Name of the created cluster. A changed name creates another cluster before the present one is deleted. Empty: triton-STACK, or the name that an existing cluster has.',
    {
      optional: true,
      pattern: /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/,
      allowed: 'at most 100 letters, digits, hyphens and underscores',
    },
  ),
  kubernetesVersion: text(
    'Kubernetes version of the created cluster. Upgrade by one minor version at a time; downgrades are impossible. When the standard support of the version ends, EKS upgrades the cluster by itself; npm run doctor warns before that.',
    { check: versionFault, allowed: ALLOWED_VERSIONS, default: '1.36' },
  ),
  clusterAdmins: texts(
    'ARNs of IAM roles and users that administer the created cluster, in addition to the identity that creates it. Without the role of CI in it, a cluster that a person created refuses the "pulumi up" of CI, and the other way round. AWS refuses the identity that creates the cluster, because EKS lists it already.',
    { pattern: iamArn('(role|user)'), allowed: 'the ARN of an IAM role or user', default: [] },
  ),
  clusterViewers: texts(
    'ARNs of IAM roles that may read every object in the created cluster, Secrets included, and change nothing: those of CI for drift and previews (docs/ci.md).',
    { pattern: iamArn('role'), allowed: 'the ARN of an IAM role', default: [] },
  ),
  publicAccessCidrs: texts(
    'IPv4 ranges that may reach the Kubernetes API of the created cluster over the internet. Empty: only the VPC may.',
    { check: closedCidrFault, allowed: 'an IPv4 range, "203.0.113.0/24"', default: [] },
  ),
  existingCluster: group(
    'An existing Kubernetes cluster of any kind. A change from a created cluster deletes it with its network. Set the text of a kubeconfig with "pulumi config set --secret --path existingCluster.kubeconfig". Empty: the stack creates an EKS cluster.',
    {
      kubeconfig: text(
        'Kubeconfig of the cluster, as text or as a path. A change to another cluster creates everything there, and then deletes it from the present one. Empty: the first file of KUBECONFIG, or ~/.kube/config.',
        { optional: true, secret: true, isPublic: (text) => !isKubeconfigText(text) },
      ),
      context: text(
        'Context of the cluster in the kubeconfig; required if kubeconfig is empty. Empty: the current context of kubeconfig.',
        { optional: true },
      ),
      identifier: text(
        'Any text that identifies the cluster, for example the UID of its namespace kube-system. With it, another address, certificate or proxy in the kubeconfig replaces nothing; without it, Pulumi takes such a cluster for another one. Set it in a "pulumi up" of its own, and never change it for the same cluster.',
        { optional: true },
      ),
      oidcProviderArn: text(
        'ARN of the IAM provider for the service accounts of an EKS cluster. The replicas need it to assume a role; with s3 they use keys instead.',
        { ...IDENTITY_PROVIDER, optional: true },
      ),
    },
    { optional: true },
  ),
  gpuNodePools: list(
    'GPU node pools, described in docs/infrastructure.md; Karpenter fills them in this order. A pool that is removed or renamed is drained and deleted, and so are the managed groups whose instances change. Empty: none, for a cluster that already has GPU nodes.',
    POOL_FIELDS,
  ),
} as const satisfies Fields;

const checkSubject: TextCheck = (text) =>
  isExactSubject(text) ? undefined : { reason: 'a subject has no *, ? and $, and one of GitHub names a repository' };
const SUBJECTS =
  'the subject of a token, "repo:OWNER@ID/NAME@ID:environment:prod" or "repo:OWNER/NAME:environment:prod"';

/** Applies the rules of the publisher, which must accept the location as well. */
export function locationFault(text: string): TextFault | undefined {
  try {
    parseLocation(text);
    return undefined;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { reason: error.message.replace(/^--bucket \S*: /, ''), hint: error.hint };
  }
}

const REPOSITORY_FIELDS = {
  modelRepository: text(
    'Existing bucket, in the region aws:region, and prefix of the models; releases are stored in PREFIX.releases. Publish to a new place before a change, because replicas then start with the models there only. A change from empty deletes the created bucket. Empty: a bucket is created, with the prefix models.',
    { optional: true, check: locationFault, allowed: '"s3://BUCKET/PREFIX"' },
  ),
  bucketKmsKeyArn: text('ARN of the KMS key that encrypts the objects of the existing bucket. Empty: no KMS key.', {
    ...KMS_KEY,
    optional: true,
  }),
  bucketReaders: texts(
    'ARNs of existing IAM roles, of this or another account, that may read the models and releases of the created bucket. "promote --from" needs such a role if the bucket belongs to another account (docs/ci.md).',
    {
      pattern: iamArn('role'),
      allowed: 'the ARN of an IAM role, "arn:aws:iam::111122223333:role/deploy"',
      default: [],
    },
  ),
  oldVersionDays: integer(
    'Days for which the created bucket keeps replaced and deleted versions of objects. What was deleted can be restored for so long.',
    { minimum: 1, maximum: 3650, default: 90 },
  ),
  s3: group(
    'An S3 API other than that of AWS, which has the bucket of modelRepository. Set the keys with "pulumi config set --secret --path s3.accessKeyId". Empty: S3 of AWS.',
    {
      endpoint: text('URL of the S3 API, as the replicas reach it.', {
        pattern: /^https?:\/\/[^/\s]+:\d+$/,
        check: checkUrl,
        allowed: '"http://HOST:PORT" or "https://HOST:PORT"',
      }),
      accessKeyId: text('Id of the access key.', { secret: true }),
      secretAccessKey: text('Secret of the access key.', { secret: true }),
    },
    { optional: true },
  ),
  bake: group(
    'The first replica that tries a release serves it for a time beside the others. If it answers worse than they do, all go back. Empty: only with --bake.',
    {
      minutes: integer('Time for which both are compared, in minutes.', { minimum: 1, maximum: 1440 }),
      maxErrorRate: number('Share of the requests that may fail, also if fewer fail on the other replicas.', {
        minimum: 0,
        maximum: 1,
        default: BAKE_DEFAULTS.maxErrorRate,
      }),
      maxLatencyRatio: number('Factor by which the mean time of a request may exceed that on the other replicas.', {
        minimum: 1,
        maximum: 100,
        default: BAKE_DEFAULTS.maxLatencyRatio,
      }),
    },
    { optional: true },
  ),
  publisherSubjects: texts(
    'Subjects of the OpenID Connect tokens whose holders may assume the publisher role. Empty: no publisher role is created.',
    { check: checkSubject, allowed: SUBJECTS, default: [] },
  ),
  prunerSubjects: texts(
    'Subjects of the tokens whose holders may assume the pruner role, which can publish as well, and delete the files of former releases (releases --prune). Empty: no such role is created.',
    { check: checkSubject, allowed: SUBJECTS, default: [] },
  ),
  publisherIssuer: text(
    'URL of the issuer of the tokens in publisherSubjects and prunerSubjects, whose audience is sts.amazonaws.com. The account must have an IAM provider for it (docs/ci.md).',
    {
      pattern: /^https:\/\/[^\s]+[^/\s]$/,
      allowed: 'an address, "https://token.actions.githubusercontent.com"',
      default: 'https://token.actions.githubusercontent.com',
    },
  ),
} as const satisfies Fields;

export const STACK_FIELDS = { ...CLUSTER_FIELDS, ...REPOSITORY_FIELDS } as const;
