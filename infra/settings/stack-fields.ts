import { cidrFault } from '../network/cidr';
import { EKS_VERSION_NAMES } from '../cluster/eks-versions';
import { isKubeconfigText } from '../cluster/kubeconfig';
import { isNarrowSubject } from '../trust-subject';
import type { Fields, TextFault } from './fields';
import { POOL_FIELDS } from './pool-fields';

const ARN = (service: string): RegExp => new RegExp(`^arn:aws[a-z-]*:${service}:[a-z0-9-]*:\\d{12}:.+$`);

/** Retention periods of CloudWatch, in days. */
const LOG_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

/** Rejects a range that contains every address. */
function closedCidrFault(text: string): TextFault | undefined {
  if (!text.endsWith('/0')) return cidrFault(text);
  return {
    reason: 'it contains every address',
    hint: 'list the addresses of your people and CI; leave the list empty to allow the VPC only',
  };
}

const OIDC_PROVIDER_ARN = /^arn:aws[a-z-]*:iam::\d{12}:oidc-provider\/.+$/;

/** Settings of network, cluster and nodes. */
const CLUSTER_FIELDS = {
  protect: {
    kind: 'flag',
    default: false,
    description:
      'Pulumi refuses to delete or replace the cluster, the buckets of models and access logs, and the KMS keys of models and Kubernetes secrets. Set it in production. To delete one of them, first set this to false and run "pulumi up".',
  },
  vpcId: {
    kind: 'text',
    optional: true,
    pattern: /^vpc-[0-9a-f]+$/,
    allowed: '"vpc-0123456789abcdef0", or no value to create a VPC',
    description: 'Id of an existing VPC; requires privateSubnetIds. Default: a VPC is created.',
  },
  privateSubnetIds: {
    kind: 'texts',
    pattern: /^subnet-[0-9a-f]+$/,
    allowed: '"subnet-0123456789abcdef0"',
    default: [],
    description:
      'Private subnets of the existing VPC, in at least two zones. They need NAT for outgoing traffic; an S3 gateway endpoint saves its fees.',
  },
  vpcCidr: {
    kind: 'text',
    check: cidrFault,
    allowed: 'an IPv4 range from /16 to /20, "10.0.0.0/16"',
    default: '10.0.0.0/16',
    description: 'Address range of the created VPC. A change replaces the network and everything in it.',
  },
  availabilityZones: {
    kind: 'texts',
    pattern: /^[a-z]{2,4}(-[a-z]+)+-\d{1,2}[a-z]$/,
    allowed: '"us-east-1a"',
    default: [],
    description: 'Availability zones of the created VPC, 2 to 6; 3 are usual. Append new zones at the end.',
  },
  natGateways: {
    kind: 'choice',
    choices: ['one', 'per-zone'],
    default: 'per-zone',
    description:
      'Number of NAT gateways: one for the whole VPC (cheaper), or per-zone (keeps working when a zone fails).',
  },
  flowLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3653,
    choices: LOG_DAYS,
    default: 90,
    description:
      'Days to keep the flow logs of the created VPC; a retention of CloudWatch (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, ...).',
  },
  cluster: {
    kind: 'choice',
    choices: ['create', 'existing'],
    default: 'create',
    description:
      'create: create an EKS cluster. existing: use a Kubernetes cluster of any kind, see kubeconfig and kubeContext.',
  },
  clusterName: {
    kind: 'text',
    optional: true,
    pattern: /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/,
    allowed: 'at most 100 letters, digits, hyphens and underscores',
    description:
      'Name of the created cluster. Default: triton-STACK. Another name creates a new cluster before the old one is deleted.',
  },
  kubernetesVersion: {
    kind: 'choice',
    choices: EKS_VERSION_NAMES,
    default: '1.35',
    description:
      'Kubernetes version of the created cluster. Upgrade by one minor version at a time; downgrades are impossible.',
  },
  autoMode: {
    kind: 'flag',
    default: true,
    description:
      'EKS Auto Mode: AWS runs Karpenter, drivers, network and storage, for a fee. false: add-ons and a managed group of system nodes.',
  },
  systemInstanceTypes: {
    kind: 'texts',
    default: ['m7i.large', 'm7a.large', 'm6i.large'],
    description: 'Without Auto Mode: instance types of the system nodes, without GPUs.',
  },
  systemNodes: {
    kind: 'integer',
    minimum: 2,
    maximum: 20,
    default: 2,
    description: 'Without Auto Mode: number of system nodes.',
  },
  clusterAdmins: {
    kind: 'texts',
    pattern: ARN('iam'),
    allowed: 'the ARN of an IAM role or user',
    default: [],
    description: 'Roles and users that administer the created cluster, in addition to the identity that creates it.',
  },
  publicAccessCidrs: {
    kind: 'texts',
    check: closedCidrFault,
    allowed: 'an IPv4 range, "203.0.113.0/24"',
    default: [],
    description: 'Addresses that may reach the Kubernetes API over the internet. Empty: only the VPC may.',
  },
  controlPlaneLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3653,
    choices: LOG_DAYS,
    default: 90,
    description: 'Days to keep the logs of the control plane, including audit logs; a retention of CloudWatch.',
  },
  kubeconfig: {
    kind: 'text',
    optional: true,
    secret: true,
    isPublic: (text) => !isKubeconfigText(text),
    description:
      'Of an existing cluster: the text of a kubeconfig, or the path of one. Default: the first file of KUBECONFIG, or ~/.kube/config.',
  },
  kubeContext: {
    kind: 'text',
    optional: true,
    description:
      'Of an existing cluster: the context in the kubeconfig. Default: the current context of the setting kubeconfig; required without it.',
  },
  oidcProviderArn: {
    kind: 'text',
    optional: true,
    pattern: OIDC_PROVIDER_ARN,
    allowed: '"arn:aws:iam::123456789012:oidc-provider/oidc.eks.REGION.amazonaws.com/id/..."',
    description: "Of an existing EKS cluster: the IAM provider of its service accounts, for Triton's role.",
  },
  renderManifestsTo: {
    kind: 'text',
    optional: true,
    description:
      'Folder to write the Kubernetes objects to, as YAML, so that another tool applies them. Default: Pulumi applies them.',
  },
  gpuNodePools: {
    kind: 'objects',
    fields: POOL_FIELDS,
    description: 'GPU node pools (docs/infrastructure.md). Empty: none, for a cluster that already has GPU nodes.',
  },
  modelGpus: {
    kind: 'objects',
    fields: {
      model: { kind: 'text', description: 'Name of the model.' },
      computeCapabilities: {
        kind: 'texts',
        pattern: /^\d{1,2}\.\d$/,
        allowed: 'a compute capability in quotes, "8.6"',
        description: 'Compute capabilities that the model has a plan for.',
      },
    },
    description: 'Models that run on some GPUs only, such as TensorRT plans. A pool with another GPU is rejected.',
  },
} as const satisfies Fields;

/** Settings of the bucket and of its publisher. */
const REPOSITORY_FIELDS = {
  modelRepositoryPrefix: {
    kind: 'text',
    default: 'models',
    description: 'Folder of the models in the bucket. Releases are stored in PREFIX.releases.',
  },
  bucketName: {
    kind: 'text',
    optional: true,
    description: 'Name of an existing bucket. Default: a bucket is created.',
  },
  bucketKmsKeyArn: {
    kind: 'text',
    optional: true,
    pattern: ARN('kms'),
    allowed: 'the ARN of a KMS key',
    description: 'Of an existing bucket: the KMS key that encrypts its objects. Default: none.',
  },
  bucketRegion: {
    kind: 'text',
    optional: true,
    description: 'Of an existing bucket: its region. Default: aws:region.',
  },
  bucketReaders: {
    kind: 'texts',
    pattern: /^arn:aws[a-z-]*:iam::\d{12}:role\/[^*?\s]+$/,
    allowed: 'the ARN of an IAM role, "arn:aws:iam::111122223333:role/deploy"',
    default: [],
    description:
      'Existing roles of other accounts that may read the models and releases of the created bucket, to promote them (docs/ci.md).',
  },
  bucketForceDestroy: {
    kind: 'flag',
    default: false,
    description:
      '"pulumi destroy" deletes the created bucket even if it contains models. Cannot be combined with protect.',
  },
  oldVersionDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3650,
    default: 90,
    description: 'Days to keep replaced and deleted versions of objects. A rollback to an older release may fail.',
  },
  accessLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3650,
    default: 365,
    description: 'Days to keep the access logs of the created bucket.',
  },
  s3Endpoint: {
    kind: 'text',
    optional: true,
    pattern: /^https?:\/\/[^/\s]+:\d+$/,
    allowed: '"http://HOST:PORT" or "https://HOST:PORT"',
    description:
      "Address of an S3 API other than AWS's, as Triton reaches it; requires bucketName, s3AccessKeyId and s3SecretAccessKey.",
  },
  s3AccessKeyId: { kind: 'text', optional: true, secret: true, description: 'Key of that S3 API.' },
  s3SecretAccessKey: { kind: 'text', optional: true, secret: true, description: 'Secret of that key.' },
  publisherSubjects: {
    kind: 'texts',
    check: (text) => (isNarrowSubject(text) ? undefined : { reason: 'it also trusts other repositories' }),
    allowed: 'the subject of a token, "repo:OWNER/NAME:environment:prod"; * and ? only after "OWNER/NAME:"',
    default: [],
    description: 'Subjects of the OpenID Connect tokens that may publish. Empty: no publisher role is created.',
  },
  publisherIssuer: {
    kind: 'text',
    pattern: /^https:\/\/[^\s]+[^/\s]$/,
    allowed: 'an address, "https://token.actions.githubusercontent.com"',
    default: 'https://token.actions.githubusercontent.com',
    description: 'Issuer of these tokens.',
  },
  publisherAudience: { kind: 'text', default: 'sts.amazonaws.com', description: 'Audience of these tokens.' },
  publisherOidcProviderArn: {
    kind: 'text',
    optional: true,
    pattern: OIDC_PROVIDER_ARN,
    allowed: 'the ARN of an IAM OpenID Connect provider',
    description: 'Existing IAM provider of the issuer; an account can have only one. Default: it is created.',
  },
} as const satisfies Fields;

export const STACK_FIELDS = { ...CLUSTER_FIELDS, ...REPOSITORY_FIELDS } as const;
