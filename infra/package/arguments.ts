import type { Fields } from '../settings/fields';
import { POOL_FIELDS } from '../settings/pool-fields';
import { STACK_FIELDS } from '../settings/stack-fields';
import { TRITON_FIELDS } from '../settings/triton-fields';

/** Returns a copy of a table without some of its fields. */
function without<T extends Fields, K extends keyof T>(fields: T, ...names: K[]): Omit<T, K> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name as K))) as Omit<T, K>;
}

const text = (description: string) => ({ kind: 'string', description }) as const;
const optionalText = (description: string) => ({ kind: 'string', optional: true, description }) as const;

const PREFIX = {
  modelRepositoryPrefix: {
    kind: 'string',
    default: 'models',
    description: 'Prefix of the models in the bucket. Releases are stored in PREFIX.releases.',
  },
} as const satisfies Fields;

const { endpoint, accessKeyId, secretAccessKey } = STACK_FIELDS.s3.fields;

const LIKE_COMPONENT = "Default: Pulumi's option protect of the component.";

/** Arguments of TritonServer. Those of the replicas are the settings of a stack file, with its names. */
export const TRITON_SERVER_FIELDS = {
  modelRepository: { ...STACK_FIELDS.modelRepository, optional: undefined, description: 'Location of the models.' },
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
    ...endpoint,
    optional: true,
    description: "URL of an S3 API other than AWS's, as the replicas reach it.",
  },
  s3AccessKeyId: { ...accessKeyId, optional: true },
  s3SecretAccessKey: { ...secretAccessKey, optional: true },
  ...TRITON_FIELDS,
  namespace: {
    kind: 'string',
    optional: true,
    description: `${TRITON_FIELDS.namespace.description} Default: the name of the component.`,
  },
  nodeSelector: { ...TRITON_FIELDS.nodeSelector, description: 'Labels of the nodes that replicas run on.' },
  tolerations: {
    ...TRITON_FIELDS.tolerations,
    description: 'Taints that the replicas tolerate, in addition to nvidia.com/gpu.',
  },
  loadBalancerCidrs: {
    ...TRITON_FIELDS.loadBalancerCidrs,
    description: 'IP ranges of the load balancer or ingress controller. Required unless exposure is cluster.',
  },
  environment: {
    ...TRITON_FIELDS.environment,
    description:
      'Environment variables of the replicas, in addition to those that this package sets. If one of them is secret, all are kept in a Secret.',
  },
  publisherGroup: optionalText(TRITON_FIELDS.publisherGroup.description),
  protect: {
    kind: 'boolean',
    optional: true,
    description: `Whether Pulumi refuses to delete the created namespace, because Kubernetes deletes all its objects too. ${LIKE_COMPONENT}`,
  },
} as const satisfies Fields;

export const MODEL_REPOSITORY_FIELDS = {
  ...PREFIX,
  bucketReaders: STACK_FIELDS.bucketReaders,
  oldVersionDays: STACK_FIELDS.oldVersionDays,
  logDays: { ...STACK_FIELDS.logDays, description: 'Days for which the access logs of the bucket are kept.' },
  protect: {
    kind: 'boolean',
    optional: true,
    description: `Whether Pulumi refuses to delete the bucket, the bucket of its access logs and the KMS key. If false, "pulumi destroy" deletes the models and logs too. ${LIKE_COMPONENT}`,
  },
} as const satisfies Fields;

export const TRITON_ACCESS_FIELDS = {
  bucketArn: text('ARN of the bucket of the models, such as the output bucketArn of ModelRepository.'),
  keyArn: optionalText('ARN of the KMS key that encrypts the models, such as the output keyArn of ModelRepository.'),
  ...PREFIX,
  oidcProviderArn: {
    ...STACK_FIELDS.existingCluster.fields.oidcProviderArn,
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
  agentImage: 'docker.io/library/node:24.4.0-slim',
  autoscaling: { kind: 'keda', minReplicas: 1, maxReplicas: 4 },
  bucketArn: 'arn:aws:s3:::models-bucket',
  bucketReaders: ['arn:aws:iam::111122223333:role/deploy'],
  capacityReservationIds: ['cr-0123456789abcdef0'],
  capacityTypes: ['on-demand'],
  clientCidrs: ['10.0.0.0/16'],
  clientNamespaces: ['web'],
  createNamespace: false,
  diskGiB: 200,
  disruption: { consolidateAfter: '5m', expireAfter: '168h', budgets: [{ nodes: '20%' }] },
  drainSeconds: 3600,
  egressCidrs: ['10.0.0.0/16'],
  egressPorts: [443],
  environment: { LOG_LEVEL: 'debug' },
  exposure: 'internal-load-balancer',
  extraArguments: ['--log-verbose=1'],
  gpusPerPod: 2,
  image: 'nvcr.io/nvidia/tritonserver:26.10-py3',
  ingress: { host: 'triton.example.com', tlsSecretName: 'triton-tls', annotations: { 'example.com/auth': 'basic' } },
  instanceTypes: ['g6.xlarge'],
  keyArn: 'arn:aws:kms:eu-west-1:111122223333:key/0123abcd',
  labels: { team: 'vision' },
  loadBalancerCidrs: ['10.0.0.0/16'],
  logDays: 90,
  loadBalancerClass: 'service.k8s.aws/nlb',
  maximumGpus: 4,
  modelRepository: 's3://models-bucket/models',
  modelRepositoryPrefix: 'faces',
  monitoring: { scrapeSeconds: 30 },
  monitoringNamespace: 'prometheus',
  name: 'l4',
  namespace: 'faces',
  nodeClass: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'default' },
  nodeSelector: { 'nvidia.com/gpu.product': 'NVIDIA-L4' },
  oidcProviderArn: 'arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123ABCD',
  oldVersionDays: 30,
  priorityClassName: 'serving',
  protect: true,
  publisherGroup: 'triton-publishers',
  region: 'eu-west-1',
  replicas: 3,
  resources: { cpu: 4, memoryGiB: 16 },
  roleArn: 'arn:aws:iam::111122223333:role/faces',
  rollout: { strategy: 'surge' },
  runtimeClassName: 'nvidia',
  s3AccessKeyId: 'ID-OF-A-KEY',
  s3Endpoint: 'http://minio.storage.svc:9000',
  s3SecretAccessKey: 'SECRET-OF-A-KEY',
  server: 'faces',
  shutdown: { drainSeconds: 60 },
  slo: { p99Milliseconds: 200 },
  startup: { downloadSeconds: 600 },
  taints: [{ key: 'team', value: 'vision' }],
  tolerations: [{ key: 'team', operator: 'Exists' }],
  tracing: { otlpEndpoint: 'http://collector.monitoring.svc:4318' },
  transform: { Deployment: { metadata: { annotations: { team: 'vision' } } } },
  weight: 10,
  zones: ['eu-west-1a'],
};
