import { formatList } from '../../src/core/problems';
import { LOCATION } from '../../src/release/location';
import { TAINT_EFFECTS } from '../gpu/gpu-labels';
import { iamArn } from '../iam/arn';
import { rangeFault } from '../network/cidr';
import { imageFault } from '../triton/image';
import { choice, flag, group, integer, list, map, number, text, texts, type Fields, type TextCheck } from './fields';
import { checkUrl, HOST, isHttpUrl, LABEL_VALUE, LABELS, NAMESPACE, OBJECT_NAME, QUALIFIED_NAME } from './formats';

/** The largest disk of a node, which exceeds any memory. */
const MOST_GIB = 16_384;

/**
 * Default of drainSeconds: how long clients may still reach a pod that stops. A network load balancer sends new connections
 * for about two minutes after the deregistration was requested
 * (https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/2366, read 2026-11-22), an application load
 * balancer for some seconds.
 */
export const DRAIN_SECONDS = { cluster: 15, ingress: 30, 'internal-load-balancer': 120 } as const;

const IMAGE = { check: imageFault, allowed: 'IMAGE:VERSION (not latest) or IMAGE@sha256:DIGEST' } as const;

const RANGES = { check: rangeFault, allowed: 'a range, "10.0.0.0/16"' } as const;

/** Port of OTLP over gRPC, which Triton does not support. */
const OTLP_GRPC_PORT = '4317';

const checkCollector: TextCheck = (url) => {
  if (!isHttpUrl(url) || url.endsWith('/v1/traces')) return { reason: '' };
  if (new URL(url).port !== OTLP_GRPC_PORT) return undefined;
  return {
    reason: `collectors receive gRPC on port ${OTLP_GRPC_PORT}`,
    hint: 'set the port on which the collector receives OTLP over HTTP, which is usually 4318',
  };
};

/** Arguments that only this package sets, because other objects depend on them. */
const OWN_ARGUMENTS = [
  'model-repository',
  'model-control-mode',
  'load-model',
  'strict-readiness',
  'exit-on-error',
  'exit-timeout-secs',
  'http-port',
  'http-address',
  'grpc-port',
  'grpc-address',
  'metrics-port',
  'metrics-address',
  'allow-http',
  'allow-grpc',
  'allow-metrics',
  'allow-gpu-metrics',
  'http-restricted-api',
  'grpc-restricted-protocol',
  // Another name of model-repository, and APIs that load models without the key.
  'model-store',
  'allow-sagemaker',
  'allow-vertex-ai',
];

/** Arguments that stop metrics, and what needs these. */
const STOPPED_METRICS = [
  // Without these counters Triton stops those of requests, too.
  ['--metrics-config=counter_latencies=false', 'the counters of alerts and autoscaling'],
  ['--metrics-config=summary_latencies=false', 'the percentiles of the dashboard and of slo'],
  ['--metrics-config=summary_quantiles=', 'the percentiles of the dashboard and of slo'],
] as const;

const checkArgument: TextCheck = (argument) => {
  const stopped = STOPPED_METRICS.find(([flag]) => argument.startsWith(flag))?.[1];
  if (stopped !== undefined) return { reason: `it stops ${stopped}`, hint: 'remove it' };
  const name = /^--([a-z0-9-]+)=./.exec(argument)?.[1];
  if (name === undefined || OWN_ARGUMENTS.includes(name)) return { reason: '' };
  // Triton accepts the beginning of a name.
  const meant = [...OWN_ARGUMENTS, 'metrics-config'].find((own) => own !== name && own.startsWith(name));
  return meant === undefined ? undefined : { reason: `Triton takes it for --${meant}` };
};

/** Without the variables that only this package sets. */
const VARIABLES = {
  names: {
    pattern: /^(?!(AWS_.*|POD_NAME|HOME|USER)$)[A-Za-z_]\w*$/,
    allowed: 'letters, digits and _, but not AWS_*, POD_NAME, HOME and USER',
  },
} as const;

/** Settings of the replicas, in a stack file and in the arguments of TritonServer. */
export const TRITON_FIELDS = {
  namespace: group('Kubernetes namespace of the replicas.', {
    name: text(
      'Kubernetes namespace of the replicas. A change creates all objects and replicas in the new namespace, and then deletes the old ones. Empty: the name of the component, which is triton in a stack.',
      { optional: true, ...NAMESPACE },
    ),
    create: flag(
      'Whether to create the namespace. If false, the namespace must exist, and its labels are left unchanged. A stack that created the namespace then releases it: the namespace stays, and no longer belongs to the stack. In a program of your own, first delete it from the state, or Pulumi deletes the namespace with everything in it.',
      { default: true },
    ),
  }),
  image: text(
    'Image of Triton, with a version or digest. Empty: the image of NVIDIA for the release that the Dockerfile names.',
    { optional: true, ...IMAGE },
  ),
  acceptedVulnerabilities: texts(
    'Ids of critical vulnerabilities of the image that are accepted. The image of a Triton release with another known one is refused.',
    { pattern: /^CVE-\d{4}-\d{4,}$/, allowed: 'an id, "CVE-2026-24207"', default: [] },
  ),
  agent: group('Release agent, which runs beside each Triton and loads the current release of the models.', {
    image: text(
      "Image with Node.js 20 or newer and a shell, with a version or digest. The program is not part of it: pods mount it. Empty: the official image of Node.js, from AWS's public registry.",
      { optional: true, ...IMAGE },
    ),
  }),
  replicas: integer('Number of replicas if autoscaling is empty.', { minimum: 0, maximum: 1000, default: 2 }),
  gpusPerPod: integer('Number of GPUs of each replica; with 0 the replicas run on CPUs.', {
    minimum: 0,
    maximum: 16,
    default: 1,
  }),
  pod: group('Parts of the PodSpec, with its names.', {
    nodeSelector: map('Labels of the nodes that replicas run on, in addition to those of gpuNodePools.', {
      ...LABELS,
      input: true,
    }),
    tolerations: list(
      'Taints that the replicas tolerate, in addition to nvidia.com/gpu and to those of gpuNodePools.',
      {
        key: text('Key of the taint.', QUALIFIED_NAME),
        operator: choice(
          'How to compare the value of the taint: Equal or, for any value, Exists. Default: Equal if there is a value, otherwise Exists.',
          { choices: ['Equal', 'Exists'], optional: true },
        ),
        value: text('Value of the taint.', { ...LABEL_VALUE, optional: true }),
        effect: choice('Effect of the taint. Default: every effect.', { choices: TAINT_EFFECTS, optional: true }),
      },
    ),
    runtimeClassName: text(
      'Runtime class of the pods, such as nvidia, for clusters whose GPU pods need one. Empty: none.',
      { ...OBJECT_NAME, optional: true },
    ),
    priorityClassName: text('Priority class of the pods. Empty: none.', { ...OBJECT_NAME, optional: true }),
    imagePullSecrets: texts('Names of Secrets in the namespace with which nodes pull the images.', {
      ...OBJECT_NAME,
      default: [],
    }),
  }),
  resources: group('Resources of one replica.', {
    cpu: number('Requested CPU cores. The limit is twice as many.', { minimum: 0.1, maximum: 256, default: 2 }),
    memoryGiB: integer('Memory in GiB, which is both request and limit.', {
      minimum: 1,
      maximum: MOST_GIB,
      default: 8,
    }),
    sharedMemoryGiB: integer(
      'Size of /dev/shm in GiB, a part of memoryGiB, through which the python backend passes tensors.',
      { minimum: 1, maximum: MOST_GIB, default: 1 },
    ),
    scratchGiB: integer(
      'Disk for downloaded models in GiB: room for two releases, the one that is served and the one that is published.',
      { minimum: 1, maximum: MOST_GIB, default: 20 },
    ),
  }),
  startSeconds: integer(
    'Seconds in which a new replica downloads and loads all models, half of them for the downloads. Alerts and timeouts follow it; it restarts nothing.',
    { minimum: 10, maximum: 86_400, default: 600 },
  ),
  drainSeconds: integer(
    `Seconds for which a replica keeps serving after a stop was requested, while load balancers deregister it. Empty: ${DRAIN_SECONDS.cluster}; with an ingress ${DRAIN_SECONDS.ingress}, with a load balancer ${DRAIN_SECONDS['internal-load-balancer']}.`,
    { minimum: 1, maximum: 3600, optional: true },
  ),
  rollout: group('How an update replaces replicas, with the names of a Deployment.', {
    maxSurge: integer('Number of replicas that may start before others stop. Each needs spare GPUs.', {
      minimum: 0,
      maximum: 1000,
      default: 0,
    }),
    maxUnavailable: integer(
      'Number of replicas that may be unavailable at the same time, in an update or because nodes are drained, which may always evict one.',
      { minimum: 0, maximum: 1000, default: 1 },
    ),
  }),
  exposure: group(
    'How clients outside the cluster reach the replicas. The kind internal-load-balancer requires clientCidrs; the kind ingress requires host, and one of certificateArn and tlsSecretName.',
    {
      kind: choice(
        'Clients that can reach the replicas: those in the cluster, those in the VPC through a network load balancer, or those of other networks through an ingress with TLS, which excludes model control. A change deletes the present load balancer or ingress, with its address.',
        { choices: ['cluster', 'internal-load-balancer', 'ingress'], default: 'cluster' },
      ),
      clientCidrs: texts(
        'IP ranges of clients that may send requests through the load balancer or ingress. Empty: every address that can reach the ingress; a load balancer requires at least one range.',
        { default: [], ...RANGES },
      ),
      controllerCidrs: texts(
        'IP ranges of the load balancer or ingress controller; required if the VPC is not created by the stack. Every machine and pod with an address in them reaches port 8000. Empty: the public subnets for an ingress that faces the internet, otherwise the private subnets, in which the pods are too.',
        { default: [], ...RANGES, input: true },
      ),
      loadBalancerClass: text(
        'Class of the load balancer, such as service.k8s.aws/nlb of AWS Load Balancer Controller. A change creates a load balancer with another address before it deletes the present one. Empty: eks.amazonaws.com/nlb of EKS Auto Mode.',
        { ...QUALIFIED_NAME, optional: true },
      ),
      host: text('Host name of the ingress.', { ...HOST, optional: true }),
      className: text('Ingress class.', { ...OBJECT_NAME, default: 'alb' }),
      scheme: choice('Whether the ingress has an address in the VPC or on the internet.', {
        choices: ['internal', 'internet-facing'],
        default: 'internal',
      }),
      certificateArn: text('ARN of a certificate of AWS Certificate Manager, for the ingress controllers of AWS.', {
        pattern: /^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate\/[\w-]+$/,
        allowed: 'an ARN, "arn:aws:acm:REGION:123456789012:certificate/..."',
        optional: true,
        input: true,
      }),
      tlsSecretName: text(
        'Name of a Secret of type kubernetes.io/tls with the certificate, for other ingress controllers.',
        { ...OBJECT_NAME, optional: true, input: true },
      ),
      annotations: map(
        'Further annotations of the ingress, such as those with which the controller authenticates clients. Required with tlsSecretName, or with the scheme internet-facing.',
        { names: QUALIFIED_NAME, input: true },
      ),
    },
  ),
  clientNamespaces: texts('Namespaces whose pods may send requests, in addition to the namespace of the replicas.', {
    default: [],
    ...NAMESPACE,
  }),
  egressCidrs: texts(
    "IP ranges to which the replicas may open connections, such as those of AWS's APIs, on the port of the S3 API and that of tracing. A NetworkPolicy of your own can allow more. Empty: all except link-local addresses.",
    { default: [], ...RANGES },
  ),
  autoscaling: group(
    'Scales the number of replicas with the queue time and the batches in flight, with KEDA 2.17 or newer. Replicas are removed after 10 minutes of lower load. Empty: replicas decides.',
    {
      minReplicas: integer('Smallest number of replicas. Without a replica there are no metrics of a queue.', {
        minimum: 1,
        maximum: 1000,
      }),
      maxReplicas: integer('Largest number of replicas.', { minimum: 1, maximum: 1000 }),
      queueMilliseconds: integer(
        'Mean queue time of the slowest model, in milliseconds, above which replicas are added.',
        { minimum: 1, maximum: 600_000, default: 50 },
      ),
      instancesPerReplica: integer(
        'Number of instances in a replica, of the model that determines the load or of all steps of an ensemble; replicas are added while more than half a batch waits for them.',
        { minimum: 1, maximum: 1000, default: 1 },
      ),
      prometheusUrl: text(
        'URL of the Prometheus that KEDA queries, with the labels namespace, job and pod. Empty: http://prometheus-operated.NAMESPACE.svc:9090 in the namespace of monitoring.',
        { check: checkUrl, allowed: 'a URL, "http://prometheus.monitoring.svc:9090"', optional: true },
      ),
    },
    { optional: true },
  ),
  monitoring: group(
    'A ServiceMonitor, a PrometheusRule with alerts and a Grafana dashboard, for the Prometheus operator and the sidecar of Grafana. Set at least one member. Empty: none of these objects, and the namespace monitoring may read metrics.',
    {
      namespace: text('Namespace of Prometheus, the only one that may read metrics.', {
        ...NAMESPACE,
        default: 'monitoring',
      }),
      selectorLabels: map('Labels by which Prometheus selects monitors and rules.', {
        ...LABELS,
        default: { release: 'kube-prometheus-stack' },
      }),
      runbookUrl: text(
        'Address of docs/runbook.md where on-call people can read it. Each alert links to its section. The default is no link.',
        {
          // A path, because this package does not know where its repository is hosted.
          default: 'docs/runbook.md',
          pattern: /^(docs\/runbook\.md|https?:\/\/[^\s#]+)$/,
          allowed: 'a URL without #, such as https://git.example.com/serving/blob/main/docs/runbook.md',
        },
      ),
      slo: group(
        'Objectives for each model, with alerts on how fast its requests use up what may miss them. Empty: none.',
        {
          p99Milliseconds: integer(
            'Time in Triton, in milliseconds, that 99 of 100 requests to each model must not exceed, including the queue.',
            { minimum: 1, maximum: 600_000, optional: true },
          ),
          errorRate: number('Share of the requests to each model that may fail: 0.001 is one in a thousand.', {
            minimum: 0.00001,
            // A page needs 14.4 times this share of the requests, so it must be less than 1/14.4.
            maximum: 0.05,
            optional: true,
          }),
        },
        { optional: true },
      ),
    },
    { optional: true },
  ),
  tracing: group(
    'Triton sends traces of requests to an OpenTelemetry collector. Empty: no traces.',
    {
      otlpEndpoint: text(
        'URL of the OTLP/HTTP receiver of an OpenTelemetry collector. The NetworkPolicy allows its port: in the namespace of a Service NAME.NAMESPACE.svc, otherwise in egressCidrs.',
        { check: checkCollector, allowed: 'a URL without /v1/traces, such as http://collector.monitoring.svc:4318' },
      ),
      sampleRate: number(
        'Share of requests that are traced, rounded to one of N. Requests with the header traceparent are always traced.',
        { minimum: 0, maximum: 1, default: 0 },
      ),
    },
    { optional: true },
  ),
  gpuCapabilities: texts(
    'Compute capabilities of the GPUs, for which "npm run build" compiles models: 7.5 is a T4, 8.9 an L4. Empty: those of gpuNodePools.',
    { default: [], pattern: /^\d{1,2}\.\d$/, allowed: 'a compute capability, such as "8.9"' },
  ),
  extraArguments: texts('Arguments of tritonserver, --NAME=VALUE each, in addition to those that this package sets.', {
    default: [],
    check: checkArgument,
    allowed: `--NAME=VALUE, but not ${formatList(OWN_ARGUMENTS)}`,
  }),
  environment: map(
    'Environment variables of the replicas, in addition to those that this package sets. If one of them is encrypted in a stack file ("pulumi config set --secret --path environment.NAME"), all are kept in a Secret; a program writes secrets to secretEnvironment.',
    { ...VARIABLES, secret: true, input: true },
  ),
} as const satisfies Fields;

/** The arguments of TritonServer: the settings of a stack file, and what a stack decides itself. */
export const TRITON_SERVER_FIELDS = {
  modelRepository: text('Location of the models, s3://BUCKET/PREFIX.', {
    pattern: LOCATION,
    allowed: 's3://BUCKET/PREFIX',
    input: true,
  }),
  region: text('Region of the bucket.', {
    // S3 APIs other than AWS's have other names.
    pattern: /^\S+$/,
    allowed: 'a region such as eu-central-1',
    input: true,
  }),
  endpointUrl: text("URL of an S3 API other than AWS's, http://HOST:PORT or https://HOST:PORT. Empty: AWS.", {
    optional: true,
    pattern: /^https?:\/\/[^/\s]+$/,
    check: checkUrl,
    allowed: '"http://HOST:PORT" or "https://HOST:PORT"',
    input: true,
  }),
  credentials: group('How the agents authenticate to the bucket: roleArn, or accessKeyId with secretAccessKey.', {
    roleArn: text(
      'ARN of the IAM role that the agents assume (IRSA). It must only be able to read the prefix and the releases beside it, and trust the service account NAME of the namespace.',
      { optional: true, pattern: iamArn('role'), allowed: 'the ARN of an IAM role', input: true },
    ),
    accessKeyId: text("Id of an access key, for an S3 API other than AWS's.", { optional: true, input: true }),
    secretAccessKey: text('Secret of the access key, which is kept in a Secret.', { optional: true, input: true }),
  }),
  ...TRITON_FIELDS,
  secretEnvironment: map('Further environment variables, which are kept in a Secret.', { ...VARIABLES, input: true }),
  protect: flag(
    'Whether Pulumi refuses to delete the created namespace, because Kubernetes deletes all its objects too. Default: the option of the component.',
    { optional: true },
  ),
  omitReplicas: flag(
    'With autoscaling, whether the Deployment has no number of replicas, because a tool that applies it repeatedly would reset the number each time.',
    { default: false },
  ),
  sharedGpus: flag(
    'Whether nodes may offer a GPU several times (time slices), so that a pod may get fewer GPUs than it requests. If true, only a pod that sees no GPU fails to start; otherwise also one that sees fewer than gpusPerPod.',
    { default: true },
  ),
  sharedNodes: flag(
    'Whether several pods should run on a node that has GPUs for them. If false, they prefer different nodes.',
    { default: false },
  ),
  createIngressClass: flag(
    'Whether to create exposure.className for the controller of EKS Auto Mode, which has no class by default.',
    { default: false },
  ),
  loadBalancerTags: map(
    'Tags of the load balancer. With EKS Auto Mode, the role of the cluster must be allowed to set them, otherwise no load balancer is created.',
  ),
} as const satisfies Fields;
