import { LOCATION } from '../../src/release/location';
import type { Fields } from '../settings/fields';
import { POOL_FIELDS } from '../settings/pool-fields';
import { STACK_FIELDS } from '../settings/stack-fields';
import { TRITON_SERVER_FIELDS as SERVER_FIELDS } from '../settings/triton-fields';

/** Returns a copy of a table without some of its fields. */
export function without<T extends object, K extends keyof T>(fields: T, ...names: K[]): Omit<T, K> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name as K))) as Omit<T, K>;
}

const text = (description: string) => ({ kind: 'string', description }) as const;
const optionalText = (description: string) => ({ kind: 'string', optional: true, description }) as const;

const PREFIX = { modelRepositoryPrefix: STACK_FIELDS.modelRepositoryPrefix } as const satisfies Fields;

const LIKE_COMPONENT = "Default: Pulumi's option protect of the component.";

/** Arguments of TritonServer. Those of the replicas are the settings of a stack file, with its names. */
export const TRITON_SERVER_FIELDS = {
  modelRepository: {
    kind: 'string',
    pattern: LOCATION,
    allowed: 's3://BUCKET/PREFIX',
    description: 'Location of the models.',
  },
  region: text('AWS region of the bucket.'),
  roleArn: {
    kind: 'string',
    optional: true,
    pattern: STACK_FIELDS.bucketReaders.pattern,
    allowed: 'the ARN of an IAM role',
    description:
      'ARN of the IAM role that the agents assume, such as the output roleArn of TritonAccess. Required without s3AccessKeyId.',
  },
  s3Endpoint: {
    ...STACK_FIELDS.s3Endpoint,
    description: "URL of an S3 API other than AWS's, as the replicas reach it.",
  },
  s3AccessKeyId: STACK_FIELDS.s3AccessKeyId,
  s3SecretAccessKey: STACK_FIELDS.s3SecretAccessKey,
  ...without(SERVER_FIELDS, 'modelRepository', 'region', 'endpointUrl', 'credentials', 'secretEnvironment'),
  environment: {
    ...SERVER_FIELDS.environment,
    description:
      'Environment variables of the replicas, in addition to those that this package sets. If one of them is secret, all are kept in a Secret.',
  },
} as const satisfies Fields;

export const MODEL_REPOSITORY_FIELDS = {
  ...PREFIX,
  bucketReaders: STACK_FIELDS.bucketReaders,
  bucketForceDestroy: STACK_FIELDS.bucketForceDestroy,
  oldVersionDays: STACK_FIELDS.oldVersionDays,
  accessLogDays: STACK_FIELDS.accessLogDays,
  protect: {
    kind: 'boolean',
    optional: true,
    description: `Whether Pulumi refuses to delete the bucket, the bucket of its access logs and the KMS key. ${LIKE_COMPONENT}`,
  },
} as const satisfies Fields;

export const TRITON_ACCESS_FIELDS = {
  bucketArn: text('ARN of the bucket of the models, such as the output bucketArn of ModelRepository.'),
  keyArn: optionalText('ARN of the KMS key that encrypts the models, such as the output keyArn of ModelRepository.'),
  ...PREFIX,
  oidcProviderArn: {
    ...STACK_FIELDS.oidcProviderArn,
    optional: undefined,
    description: 'ARN of the IAM provider for the service accounts of the cluster.',
  },
  server: text('Name of the TritonServer whose pods get the role.'),
  namespace: optionalText('Namespace of this TritonServer. Default: the name of the TritonServer.'),
} as const satisfies Fields;

/** Arguments of GpuNodePool: those of a pool for the Karpenter of an existing cluster, with the names of a stack file. */
export const GPU_NODE_POOL_FIELDS = {
  ...without(POOL_FIELDS, 'nodes'),
  name: {
    ...POOL_FIELDS.name,
    optional: true,
    description: `${POOL_FIELDS.name.description} Default: the name of the component.`,
  },
  nodeClass: { ...POOL_FIELDS.nodeClass, optional: undefined, description: 'Existing node class of Karpenter.' },
  drainSeconds: {
    kind: 'integer',
    minimum: 1,
    maximum: 86_400,
    optional: true,
    description: 'Seconds in which all replicas can be replaced one after the other. Default: 14400.',
  },
  weight: {
    kind: 'integer',
    minimum: 0,
    maximum: 100,
    default: 0,
    description: 'Pools of Karpenter with a higher weight are filled first.',
  },
} as const satisfies Fields;

/** An example of each argument. A test reads each by the rules of its field. */
export const EXAMPLES: Readonly<Record<string, unknown>> = {
  accessLogDays: 90,
  agent: { image: 'docker.io/library/node:24.4.0-slim' },
  autoscaling: { minReplicas: 1, maxReplicas: 4 },
  bucketArn: 'arn:aws:s3:::models-bucket',
  bucketForceDestroy: true,
  bucketReaders: ['arn:aws:iam::111122223333:role/deploy'],
  capacityReservationIds: ['cr-0123456789abcdef0'],
  capacityTypes: ['on-demand'],
  clientNamespaces: ['web'],
  createIngressClass: true,
  diskGiB: 200,
  disruption: { consolidateAfter: '5m', expireAfter: '168h', budgets: [{ nodes: '20%' }] },
  drainSeconds: 3600,
  egressCidrs: ['10.0.0.0/16'],
  environment: { LOG_LEVEL: 'debug' },
  exposure: { kind: 'internal-load-balancer', clientCidrs: ['10.0.0.0/16'], controllerCidrs: ['10.0.0.0/16'] },
  extraArguments: ['--log-verbose=1'],
  gpusPerPod: 2,
  image: 'nvcr.io/nvidia/tritonserver:26.10-py3',
  instanceTypes: ['g6.xlarge'],
  keyArn: 'arn:aws:kms:eu-west-1:111122223333:key/0123abcd',
  labels: { team: 'vision' },
  loadBalancerTags: { team: 'vision' },
  maximumGpus: 4,
  modelRepository: 's3://models-bucket/models',
  modelRepositoryPrefix: 'faces',
  monitoring: { namespace: 'prometheus', slo: { p99Milliseconds: 200 } },
  name: 'l4',
  namespace: { name: 'faces', create: false },
  nodeClass: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'default' },
  oidcProviderArn: 'arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123ABCD',
  oldVersionDays: 30,
  omitReplicas: true,
  pod: { runtimeClassName: 'nvidia', nodeSelector: { 'nvidia.com/gpu.product': 'NVIDIA-L4' } },
  protect: true,
  region: 'eu-west-1',
  replicas: 3,
  resources: { cpu: 4, memoryGiB: 16 },
  roleArn: 'arn:aws:iam::111122223333:role/faces',
  rollout: { maxSurge: 1, maxUnavailable: 0 },
  s3AccessKeyId: 'ID-OF-A-KEY',
  s3Endpoint: 'http://minio.storage.svc:9000',
  s3SecretAccessKey: 'SECRET-OF-A-KEY',
  server: 'faces',
  sharedGpus: false,
  sharedNodes: true,
  startSeconds: 900,
  taints: [{ key: 'team', value: 'vision' }],
  tracing: { otlpEndpoint: 'http://collector.monitoring.svc:4318' },
  transform: { Deployment: { metadata: { annotations: { team: 'vision' } } } },
  weight: 10,
  zones: ['eu-west-1a'],
};
