import { cidrFault } from '../cidr';
import { EKS_VERSION_NAMES } from '../eks-versions';
import { isKubeconfigText } from '../kubeconfig';
import { isNarrowSubject } from '../trust-subject';
import type { Fields, TextFault } from './fields';
import { POOL_FIELDS } from './pool-fields';

const ARN = (service: string): RegExp => new RegExp(`^arn:aws[a-z-]*:${service}:[a-z0-9-]*:\\d{12}:.+$`);

/** Days for which CloudWatch can keep logs. */
const LOG_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

/** A range that does not hold every address there is. */
function closedCidrFault(text: string): TextFault | undefined {
  if (!text.endsWith('/0')) return cidrFault(text);
  return {
    reason: 'that is everybody',
    hint: 'name the addresses of people and CI; leave the list empty to reach the API from inside of the VPC only',
  };
}

const OIDC_PROVIDER_ARN = /^arn:aws[a-z-]*:iam::\d{12}:oidc-provider\/.+$/;

/** Network, cluster and nodes. */
const CLUSTER_FIELDS = {
  protect: {
    kind: 'flag',
    default: false,
    description:
      'Pulumi refuses to delete or replace the buckets of models and access logs, the cluster, and the keys of models and Kubernetes secrets. Set it in production; to delete one of them all the same, set it to false and run "pulumi up" first.',
  },
  vpcId: {
    kind: 'text',
    optional: true,
    pattern: /^vpc-[0-9a-f]+$/,
    allowed: '"vpc-0123456789abcdef0", or nothing for a network of its own',
    description: 'An existing VPC to use; then give privateSubnetIds too. Default: a VPC is made.',
  },
  privateSubnetIds: {
    kind: 'texts',
    pattern: /^subnet-[0-9a-f]+$/,
    allowed: '"subnet-0123456789abcdef0"',
    default: [],
    description:
      'Private subnets of the existing VPC, in at least two zones. They need a way out (NAT), and an S3 endpoint saves its fees.',
  },
  vpcCidr: {
    kind: 'text',
    check: cidrFault,
    allowed: 'an IPv4 range from /16 to /20, "10.0.0.0/16"',
    default: '10.0.0.0/16',
    description: 'Addresses of the VPC that is made. Changing it replaces the network and all that is in it.',
  },
  availabilityZones: {
    kind: 'texts',
    pattern: /^[a-z]{2,4}(-[a-z]+)+-\d{1,2}[a-z]$/,
    allowed: '"us-east-1a"',
    default: [],
    description: 'Zones of the VPC that is made, from 2 to 6; 3 are usual. Add new ones at the end.',
  },
  natGateways: {
    kind: 'choice',
    choices: ['one', 'per-zone'],
    default: 'per-zone',
    description: 'one is cheaper; per-zone goes on when a zone is down.',
  },
  flowLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3653,
    choices: LOG_DAYS,
    default: 90,
    description:
      'Days to keep the flow logs of the VPC that is made; those that CloudWatch knows (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, ...).',
  },
  cluster: {
    kind: 'choice',
    choices: ['create', 'existing'],
    default: 'create',
    description:
      'create: an EKS cluster is made. existing: a cluster that is there, of whatever kind (kubeconfig, kubeContext).',
  },
  clusterName: {
    kind: 'text',
    optional: true,
    pattern: /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/,
    allowed: 'at most 100 letters, digits, hyphens and underscores',
    description:
      'Name of the cluster that is made. Default: triton-STACK. Another name makes a new cluster before the old one goes.',
  },
  kubernetesVersion: {
    kind: 'choice',
    choices: EKS_VERSION_NAMES,
    default: '1.35',
    description: 'Kubernetes of the cluster that is made. It can go up by one at a time, and never down.',
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
    description: 'Without Auto Mode: machines without GPU for what belongs to the system.',
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
    description: 'Who may do anything in the cluster that is made, besides whoever makes it.',
  },
  publicAccessCidrs: {
    kind: 'texts',
    check: closedCidrFault,
    allowed: 'an IPv4 range, "203.0.113.0/24"',
    default: [],
    description: 'From where the Kubernetes API may be reached over the internet. Empty: from inside of the VPC only.',
  },
  controlPlaneLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3653,
    choices: LOG_DAYS,
    default: 90,
    description: 'Days to keep the logs of the control plane, audit logs among them; those that CloudWatch knows.',
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
      'Of an existing cluster: which context of the kubeconfig. Default: the current one of kubeconfig; without that it has to be given.',
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
      'Folder to write the Kubernetes objects to, as YAML, for something else to apply. Default: they are applied.',
  },
  gpuNodePools: {
    kind: 'objects',
    fields: POOL_FIELDS,
    description: 'GPU node pools (docs/infrastructure.md). Empty: none, as in a cluster that has GPU nodes.',
  },
  modelGpus: {
    kind: 'objects',
    fields: {
      model: { kind: 'text', description: 'Name of the model.' },
      computeCapabilities: {
        kind: 'texts',
        pattern: /^\d{1,2}\.\d$/,
        allowed: 'a compute capability in quotes, "8.6"',
        description: 'The compute capabilities that it has a plan for.',
      },
    },
    description:
      'Models that run on some kinds of GPU only, as a TensorRT plan does. A pool with another GPU is refused.',
  },
} as const satisfies Fields;

/** The bucket, and who writes to it. */
const REPOSITORY_FIELDS = {
  modelRepositoryPrefix: {
    kind: 'text',
    default: 'models',
    description: 'Folder of the models in the bucket. Releases are kept beside it, in PREFIX.releases.',
  },
  bucketName: {
    kind: 'text',
    optional: true,
    description: 'An existing bucket to use. Default: one is made.',
  },
  bucketKmsKeyArn: {
    kind: 'text',
    optional: true,
    pattern: ARN('kms'),
    allowed: 'the ARN of a KMS key',
    description: 'Of an existing bucket: the key that its objects are encrypted with. Default: none.',
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
      'Roles that may read the models and releases of the bucket that is made, to promote them from another account (docs/ci.md). They have to be there already.',
  },
  bucketForceDestroy: {
    kind: 'flag',
    default: false,
    description:
      '"pulumi destroy" deletes the bucket that was made although there are models in it. Not together with protect.',
  },
  oldVersionDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3650,
    default: 90,
    description:
      'Days to keep versions of objects that were replaced or deleted. Older releases may then not be restorable.',
  },
  accessLogDays: {
    kind: 'integer',
    minimum: 1,
    maximum: 3650,
    default: 365,
    description: 'Days to keep the access logs of the bucket that is made.',
  },
  s3Endpoint: {
    kind: 'text',
    optional: true,
    pattern: /^https?:\/\/[^/\s]+:\d+$/,
    allowed: '"http://HOST:PORT" or "https://HOST:PORT"',
    description:
      "An S3 API that is not AWS's, as Triton reaches it; then give bucketName, s3AccessKeyId and s3SecretAccessKey.",
  },
  s3AccessKeyId: { kind: 'text', optional: true, secret: true, description: 'Key of that S3 API.' },
  s3SecretAccessKey: { kind: 'text', optional: true, secret: true, description: 'Secret of that key.' },
  publisherSubjects: {
    kind: 'texts',
    check: (text) => (isNarrowSubject(text) ? undefined : { reason: 'that trusts other repositories too' }),
    allowed: 'the subject of a token, "repo:OWNER/NAME:environment:prod"; * and ? only behind "OWNER/NAME:"',
    default: [],
    description: 'Who may publish, by the subject of their OpenID Connect token. Empty: no publisher role is made.',
  },
  publisherIssuer: {
    kind: 'text',
    pattern: /^https:\/\/[^\s]+[^/\s]$/,
    allowed: 'an address, "https://token.actions.githubusercontent.com"',
    default: 'https://token.actions.githubusercontent.com',
    description: 'Who issues these tokens.',
  },
  publisherAudience: { kind: 'text', default: 'sts.amazonaws.com', description: 'Audience of these tokens.' },
  publisherOidcProviderArn: {
    kind: 'text',
    optional: true,
    pattern: OIDC_PROVIDER_ARN,
    allowed: 'the ARN of an IAM OpenID Connect provider',
    description:
      'The IAM provider of the issuer, where the account has it already (there can be only one). Default: it is made.',
  },
} as const satisfies Fields;

export const STACK_FIELDS = { ...CLUSTER_FIELDS, ...REPOSITORY_FIELDS } as const;
