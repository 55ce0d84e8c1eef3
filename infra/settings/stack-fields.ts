import { cidrFault } from '../network/cidr';
import { ALLOWED_VERSIONS, versionFault } from '../cluster/eks-versions';
import { isKubeconfigText } from '../cluster/kubeconfig';
import { isExactSubject } from '../trust-subject';
import { iamArn } from '../iam/arn';
import type { Fields, TextCheck, TextFault } from './fields';
import { POOL_FIELDS } from './pool-fields';

/** Retention periods of CloudWatch, in days. */
const LOG_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

/** Rejects a range that is larger than a network of administrators. */
function closedCidrFault(text: string): TextFault | undefined {
  if (!/\/[0-7]$/.test(text)) return cidrFault(text);
  return {
    reason: text.endsWith('/0') ? 'it contains every address' : 'it has more than 16 million addresses',
    hint: 'list the addresses of your administrators and CI; an empty list allows the VPC only',
  };
}

const OIDC_PROVIDER_ARN = /^arn:aws[a-z-]*:iam::\d{12}:oidc-provider\/.+$/;

/** Settings of network, cluster and nodes. */
const CLUSTER_FIELDS = {
  protect: {
    kind: 'boolean',
    default: true,
    description:
      'Whether Pulumi refuses to delete or replace the cluster, the namespace of the replicas, the buckets of models and access logs, the log groups, the KMS keys and the roles of publishers. To delete one of these resources, or for a stack of experiments, set it to false and run "pulumi up" first. A stack for which cluster, bucket and namespace exist has nothing to protect.',
  },
  vpcId: {
    kind: 'string',
    optional: true,
    pattern: /^vpc-[0-9a-f]+$/,
    allowed: 'an id, "vpc-0123456789abcdef0"',
    description:
      'Id of an existing VPC, which also requires privateSubnetIds. A change deletes or replaces the network of a live stack, so change clusterName in the same step. Empty: a VPC is created.',
  },
  privateSubnetIds: {
    kind: 'stringArray',
    pattern: /^subnet-[0-9a-f]+$/,
    allowed: 'an id, "subnet-0123456789abcdef0"',
    default: [],
    description:
      'Ids of at least two private subnets of the existing VPC, in different zones. They need NAT for outgoing traffic; an S3 gateway endpoint saves the NAT fee for models.',
  },
  vpcCidr: {
    kind: 'string',
    check: cidrFault,
    allowed: 'an IPv4 range from /16 to /20, "10.0.0.0/16"',
    default: '10.0.0.0/16',
    description:
      'IPv4 range of the created VPC. A change replaces the network and everything in it, so change clusterName in the same step.',
  },
  availabilityZones: {
    kind: 'stringArray',
    pattern: /^[a-z]{2,4}(-[a-z]+)+-\d{1,2}[a-z]$/,
    allowed: 'a zone, "us-east-1a"',
    default: [],
    description:
      'Availability zones of the created VPC: 2 to 6, usually 3. A zone can be added or removed later; the subnets of the others stay.',
  },
  natGateways: {
    kind: 'choice',
    choices: ['one', 'per-zone'],
    default: 'per-zone',
    description:
      'Number of NAT gateways of the created VPC: one for all zones (cheaper), or one per zone (keeps working when a zone fails).',
  },
  flowLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3653,
    choices: LOG_DAYS,
    default: 90,
    description: 'Days for which CloudWatch keeps the flow logs of the created VPC.',
  },
  cluster: {
    kind: 'choice',
    choices: ['create', 'existing'],
    default: 'create',
    description:
      'Whether to create an EKS cluster, or to use an existing Kubernetes cluster of any kind (kubeconfig, kubeContext). A change from create to existing deletes the created cluster with its network.',
  },
  clusterName: {
    kind: 'string',
    optional: true,
    pattern: /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/,
    allowed: 'at most 100 letters, digits, hyphens and underscores',
    description:
      'Name of the created cluster. A changed name creates another cluster before the present one is deleted. Empty: triton-STACK, or the name that an existing cluster has.',
  },
  kubernetesVersion: {
    kind: 'string',
    check: versionFault,
    allowed: ALLOWED_VERSIONS,
    default: '1.36',
    description:
      'Kubernetes version of the created cluster. Upgrade by one minor version at a time; downgrades are impossible. When the standard support of the version ends, EKS upgrades the cluster by itself; the preview warns before that, and of a version that this package does not know.',
  },
  clusterAdmins: {
    kind: 'stringArray',
    pattern: iamArn('(role|user)'),
    allowed: 'the ARN of an IAM role or user',
    default: [],
    description:
      'ARNs of IAM roles and users that administer the created cluster, in addition to the identity that creates it. Without the role of CI in it, a cluster that a person created refuses the "pulumi up" of CI, and the other way round. AWS refuses the identity that creates the cluster, because EKS lists it already.',
  },
  clusterViewers: {
    kind: 'stringArray',
    pattern: iamArn('role'),
    allowed: 'the ARN of an IAM role',
    default: [],
    description:
      'ARNs of IAM roles that may read every object in the created cluster, Secrets included, and change nothing: those of CI for drift and previews (docs/ci.md).',
  },
  publicAccessCidrs: {
    kind: 'stringArray',
    check: closedCidrFault,
    allowed: 'an IPv4 range, "203.0.113.0/24"',
    default: [],
    description:
      'IPv4 ranges that may reach the Kubernetes API of the created cluster over the internet. Empty: only the VPC may.',
  },
  controlPlaneLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3653,
    choices: LOG_DAYS,
    default: 90,
    description: 'Days for which CloudWatch keeps the logs of the control plane, which include the audit log.',
  },
  kubeconfig: {
    kind: 'string',
    optional: true,
    secret: true,
    isPublic: (text) => !isKubeconfigText(text),
    description:
      'Kubeconfig of the existing cluster, as text or as a path. A change to another cluster creates everything there, and then deletes it from the present one. Empty: the first file of KUBECONFIG, or ~/.kube/config.',
  },
  kubeContext: {
    kind: 'string',
    optional: true,
    description:
      'Context of the existing cluster in the kubeconfig; required if kubeconfig is empty. Empty: the current context of kubeconfig.',
  },
  clusterIdentifier: {
    kind: 'string',
    optional: true,
    description:
      'Any text that identifies the existing cluster, for example the UID of its namespace kube-system. With it, another address, certificate or proxy in the kubeconfig replaces nothing; without it, Pulumi takes such a cluster for another one. Set it in a "pulumi up" of its own, and never change it for the same cluster.',
  },
  oidcProviderArn: {
    kind: 'string',
    optional: true,
    pattern: OIDC_PROVIDER_ARN,
    allowed: 'an ARN, "arn:aws:iam::123456789012:oidc-provider/oidc.eks.REGION.amazonaws.com/id/..."',
    description:
      'ARN of the IAM provider for the service accounts of the existing EKS cluster. The replicas need it to assume a role; with s3Endpoint they use keys instead.',
  },
  gpuNodePools: {
    kind: 'objectArray',
    fields: POOL_FIELDS,
    description:
      'GPU node pools, described in docs/infrastructure.md; Karpenter fills them in this order. A pool that is removed or renamed is drained and deleted, and so are the managed groups whose instances change. Empty: none, for a cluster that already has GPU nodes.',
  },
} as const satisfies Fields;

const checkSubject: TextCheck = (text) =>
  isExactSubject(text) ? undefined : { reason: 'a subject has no *, ? and $, and one of GitHub names a repository' };
const SUBJECTS =
  'the subject of a token, "repo:OWNER@ID/NAME@ID:environment:prod" or "repo:OWNER/NAME:environment:prod"';

/** Settings of the bucket and of its publisher. */
const REPOSITORY_FIELDS = {
  modelRepositoryPrefix: {
    kind: 'string',
    default: 'models',
    description:
      'Prefix of the models in the bucket. Releases are stored in PREFIX.releases. After a change, replicas start with the models under the new prefix only, so publish to it first.',
  },
  bucketName: {
    kind: 'string',
    optional: true,
    description:
      'Name of an existing bucket. A change from empty deletes the created bucket. Empty: a bucket is created.',
  },
  bucketKmsKeyArn: {
    kind: 'string',
    optional: true,
    pattern: /^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key\/[\w-]+$/,
    // A policy that names an alias grants nothing: docs.aws.amazon.com/kms/latest/developerguide/alias-authorization.html (2026-11-27).
    allowed: 'the ARN of a KMS key, not of an alias',
    description: 'ARN of the KMS key that encrypts the objects of the existing bucket. Empty: no KMS key.',
  },
  bucketRegion: {
    kind: 'string',
    optional: true,
    description: 'Region of the existing bucket. Empty: aws:region.',
  },
  bucketReaders: {
    kind: 'stringArray',
    pattern: iamArn('role'),
    allowed: 'the ARN of an IAM role, "arn:aws:iam::111122223333:role/deploy"',
    default: [],
    description:
      'ARNs of existing IAM roles, of this or another account, that may read the models and releases of the created bucket. "promote --from" needs such a role if the bucket belongs to another account (docs/ci.md).',
  },
  bucketForceDestroy: {
    kind: 'boolean',
    default: false,
    description:
      'Whether "pulumi destroy" deletes the created bucket even if it contains models. Cannot be combined with protect.',
  },
  oldVersionDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3650,
    default: 90,
    description:
      'Days for which the created bucket keeps replaced and deleted versions of objects. What was deleted can be restored for so long.',
  },
  accessLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3650,
    default: 365,
    description: 'Days for which the access logs of the created bucket are kept.',
  },
  s3Endpoint: {
    kind: 'string',
    optional: true,
    pattern: /^https?:\/\/[^/\s]+:\d+$/,
    allowed: '"http://HOST:PORT" or "https://HOST:PORT"',
    description:
      "URL of an S3 API other than AWS's, as the replicas reach it. Requires bucketName, s3AccessKeyId and s3SecretAccessKey.",
  },
  s3AccessKeyId: { kind: 'string', optional: true, secret: true, description: 'Id of the access key for s3Endpoint.' },
  s3SecretAccessKey: {
    kind: 'string',
    optional: true,
    secret: true,
    description: 'Secret of the access key for s3Endpoint.',
  },
  publisherSubjects: {
    kind: 'stringArray',
    check: checkSubject,
    allowed: SUBJECTS,
    default: [],
    description:
      'Subjects of the OpenID Connect tokens whose holders may assume the publisher role. Empty: no publisher role is created.',
  },
  prunerSubjects: {
    kind: 'stringArray',
    check: checkSubject,
    allowed: SUBJECTS,
    default: [],
    description:
      'Subjects of the tokens whose holders may assume the pruner role, which can publish as well, and delete the files of former releases (releases --prune). Empty: no such role is created.',
  },
  publisherIssuer: {
    kind: 'string',
    pattern: /^https:\/\/[^\s]+[^/\s]$/,
    allowed: 'an address, "https://token.actions.githubusercontent.com"',
    default: 'https://token.actions.githubusercontent.com',
    description: 'URL of the issuer of the tokens in publisherSubjects and prunerSubjects.',
  },
  publisherAudience: {
    kind: 'string',
    default: 'sts.amazonaws.com',
    description: 'Audience of the tokens in publisherSubjects and prunerSubjects.',
  },
  publisherOidcProviderArn: {
    kind: 'string',
    optional: true,
    pattern: OIDC_PROVIDER_ARN,
    allowed: 'the ARN of an IAM OpenID Connect provider',
    description:
      'ARN of the IAM provider of publisherIssuer. Empty: the provider is looked up in the account, or created if createPublisherOidcProvider is true.',
  },
  createPublisherOidcProvider: {
    kind: 'boolean',
    default: false,
    description:
      'Whether this stack creates the IAM provider of publisherIssuer. An account can have only one for each issuer, which all its stacks and repositories share, so "pulumi destroy" and a change back to false leave it in the account.',
  },
} as const satisfies Fields;

export const STACK_FIELDS = { ...CLUSTER_FIELDS, ...REPOSITORY_FIELDS } as const;
