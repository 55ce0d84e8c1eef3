import { formatList } from '../../src/core/problems';
import { LOCATION } from '../../src/release/location';
import { TAINT_EFFECTS } from '../gpu/gpu-labels';
import { iamArn } from '../iam/arn';
import { rangeFault } from '../network/cidr';
import { isPinned } from '../triton/image';
import type { Field, Fields, TextCheck } from './fields';

/** The largest disk of a node, which exceeds any memory. */
const MOST_GIB = 16_384;

const integer = (minimum: number, maximum: number, description: string) =>
  ({ kind: 'integer', minimum, maximum, description }) as const;
const defaultInteger = (value: number, minimum: number, maximum: number, description: string) =>
  ({ ...integer(minimum, maximum, description), default: value }) as const;
const text = (description: string, rule: Rule = {}) =>
  ({ kind: 'string', optional: true, ...rule, description }) as const;
const texts = (description: string, rule: Rule = {}) =>
  ({ kind: 'stringArray', default: [], ...rule, description }) as const;

/** What a text must be. */
type Rule = Pick<Field & { kind: 'string' }, 'pattern' | 'check' | 'allowed'>;

/**
 * Default of drainSeconds: how long clients may still reach a pod that stops. A network load balancer sends new connections
 * for about two minutes after the deregistration was requested
 * (https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/2366, read 2026-11-22), an application load
 * balancer for some seconds.
 */
export const DRAIN_SECONDS = { cluster: 15, ingress: 30, 'internal-load-balancer': 120 } as const;

const NAMESPACE = {
  pattern: /^(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$/,
  allowed: 'at most 63 lower-case letters, digits and hyphens',
} as const;

const IMAGE = {
  check: (image: string) => (isPinned(image) ? undefined : { reason: 'it may be another image at the next start' }),
  allowed: 'IMAGE:VERSION (not latest) or IMAGE@sha256:DIGEST',
} as const;

const RANGES = { check: rangeFault, allowed: 'a range, "10.0.0.0/16"' } as const;

/** Port of OTLP over gRPC, which Triton does not support. */
const OTLP_GRPC_PORT = '4317';

const checkCollector: TextCheck = (url) => {
  const isUrl = /^https?:\/\/[^\s/?#@$]+(\/[^\s?#$]*)?$/.test(url) && URL.canParse(url);
  if (!isUrl || url.endsWith('/v1/traces')) return { reason: '' };
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
  'grpc-port',
  'metrics-port',
  'allow-metrics',
  'allow-gpu-metrics',
  'http-restricted-api',
  'grpc-restricted-protocol',
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
  const name = /^--([a-z0-9-]+)/.exec(argument)?.[1];
  return name === undefined || OWN_ARGUMENTS.includes(name) ? { reason: '' } : undefined;
};

/** Without the variables that only this package sets. */
const VARIABLES = {
  names: /^(?!(AWS_.*|POD_NAME|HOME|USER)$)[A-Za-z_]\w*$/,
  allowed: 'a mapping of names to text; a name has letters, digits and _, and is not AWS_*, POD_NAME, HOME or USER',
} as const;

/** Settings of the replicas, in a stack file and in the arguments of TritonServer. */
export const TRITON_FIELDS = {
  namespace: {
    kind: 'object',
    fields: {
      name: {
        kind: 'string',
        optional: true,
        ...NAMESPACE,
        description:
          'Kubernetes namespace of the replicas. A change creates all objects and replicas in the new namespace, and then deletes the old ones. Empty: the name of the component, which is triton in a stack.',
      },
      create: {
        kind: 'boolean',
        default: true,
        description:
          'Whether to create the namespace. If false, the namespace must exist, and its labels are left unchanged. A stack that created the namespace then releases it: the namespace stays, and no longer belongs to the stack.',
      },
    },
    description: 'Kubernetes namespace of the replicas.',
  },
  image: text(
    'Image of Triton, with a version or digest. Empty: the image of NVIDIA for the release that the Dockerfile names.',
    IMAGE,
  ),
  agent: {
    kind: 'object',
    fields: {
      image: text(
        "Image with Node.js 20 or newer and a shell, with a version or digest. The program is not part of it: pods mount it. Empty: the official image of Node.js, from AWS's public registry.",
        IMAGE,
      ),
    },
    description: 'Release agent, which runs beside each Triton and loads the current release of the models.',
  },
  replicas: defaultInteger(2, 0, 1000, 'Number of replicas if autoscaling is empty.'),
  gpusPerPod: defaultInteger(1, 0, 16, 'Number of GPUs of each replica; with 0 the replicas run on CPUs.'),
  pod: {
    kind: 'object',
    fields: {
      nodeSelector: {
        kind: 'stringMap',
        input: true,
        description: 'Labels of the nodes that replicas run on, in addition to those of gpuNodePools.',
      },
      tolerations: {
        kind: 'objectArray',
        fields: {
          key: { kind: 'string', description: 'Key of the taint.' },
          operator: {
            kind: 'choice',
            choices: ['Equal', 'Exists'],
            optional: true,
            description:
              'How to compare the value of the taint: Equal or, for any value, Exists. Default: Equal if there is a value, otherwise Exists.',
          },
          value: text('Value of the taint.'),
          effect: {
            kind: 'choice',
            choices: TAINT_EFFECTS,
            optional: true,
            description: 'Effect of the taint. Default: every effect.',
          },
        },
        description: 'Taints that the replicas tolerate, in addition to nvidia.com/gpu and to those of gpuNodePools.',
      },
      runtimeClassName: text(
        'Runtime class of the pods, such as nvidia, for clusters whose GPU pods need one. Empty: none.',
      ),
      priorityClassName: text('Priority class of the pods. Empty: none.'),
      imagePullSecrets: {
        ...texts('Names of Secrets in the namespace with which nodes pull the images.'),
        pattern: /^(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/,
        allowed: 'the name of a Secret, "registry"',
      },
    },
    description: 'Parts of the PodSpec, with its names.',
  },
  resources: {
    kind: 'object',
    fields: {
      cpu: {
        kind: 'number',
        minimum: 0.1,
        maximum: 256,
        default: 2,
        description: 'Requested CPU cores. The limit is twice as many.',
      },
      memoryGiB: defaultInteger(8, 1, MOST_GIB, 'Memory in GiB, which is both request and limit.'),
      sharedMemoryGiB: defaultInteger(
        1,
        1,
        MOST_GIB,
        'Size of /dev/shm in GiB, a part of memoryGiB, through which the python backend passes tensors.',
      ),
      scratchGiB: defaultInteger(
        20,
        1,
        MOST_GIB,
        'Disk for downloaded models in GiB: room for two releases, the one that is served and the one that is published.',
      ),
    },
    description: 'Resources of one replica.',
  },
  startSeconds: defaultInteger(
    600,
    10,
    86_400,
    'Seconds in which a new replica downloads and loads all models, half of them for the downloads. Alerts and timeouts follow it; it restarts nothing.',
  ),
  drainSeconds: {
    ...integer(
      1,
      3600,
      `Seconds for which a replica keeps serving after a stop was requested, while load balancers deregister it. Empty: ${DRAIN_SECONDS.cluster}; with an ingress ${DRAIN_SECONDS.ingress}, with a load balancer ${DRAIN_SECONDS['internal-load-balancer']}.`,
    ),
    optional: true,
  },
  rollout: {
    kind: 'object',
    fields: {
      maxSurge: defaultInteger(
        0,
        0,
        1000,
        'Number of replicas that may start before others stop. Each needs spare GPUs.',
      ),
      maxUnavailable: defaultInteger(
        1,
        0,
        1000,
        'Number of replicas that may be unavailable at the same time, in an update or because nodes are drained, which may always evict one.',
      ),
    },
    description: 'How an update replaces replicas, with the names of a Deployment.',
  },
  exposure: {
    kind: 'object',
    fields: {
      kind: {
        kind: 'choice',
        choices: ['cluster', 'internal-load-balancer', 'ingress'],
        default: 'cluster',
        description:
          'Clients that can reach the replicas: those in the cluster, those in the VPC through a network load balancer, or those of other networks through an ingress with TLS, which excludes model control. A change deletes the present load balancer or ingress, with its address.',
      },
      clientCidrs: texts(
        'IP ranges of clients that may send requests through the load balancer or ingress. Empty: every address that can reach the ingress; a load balancer requires at least one range.',
        RANGES,
      ),
      controllerCidrs: {
        ...texts(
          'IP ranges of the load balancer or ingress controller; required if the VPC is not created by the stack. Every machine and pod with an address in them reaches port 8000. Empty: the public subnets for an ingress that faces the internet, otherwise the private subnets, in which the pods are too.',
        ),
        ...RANGES,
        input: true,
      },
      loadBalancerClass: text(
        'Class of the load balancer, such as service.k8s.aws/nlb of AWS Load Balancer Controller. A change creates a load balancer with another address before it deletes the present one. Empty: eks.amazonaws.com/nlb of EKS Auto Mode.',
      ),
      host: {
        ...text('Host name of the ingress.'),
        pattern: /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/,
        allowed: 'a name such as triton.example.com',
      },
      className: { kind: 'string', default: 'alb', description: 'Ingress class.' },
      scheme: {
        kind: 'choice',
        choices: ['internal', 'internet-facing'],
        default: 'internal',
        description: 'Whether the ingress has an address in the VPC or on the internet.',
      },
      certificateArn: {
        ...text('ARN of a certificate of AWS Certificate Manager, for the ingress controllers of AWS.'),
        input: true,
      },
      tlsSecretName: {
        ...text('Name of a Secret of type kubernetes.io/tls with the certificate, for other ingress controllers.'),
        input: true,
      },
      annotations: {
        kind: 'stringMap',
        input: true,
        description:
          'Further annotations of the ingress, such as those with which the controller authenticates clients. Required with tlsSecretName, or with the scheme internet-facing.',
      },
    },
    description:
      'How clients outside the cluster reach the replicas. The kind internal-load-balancer requires clientCidrs; the kind ingress requires host, and one of certificateArn and tlsSecretName.',
  },
  clientNamespaces: texts(
    'Namespaces whose pods may send requests, in addition to the namespace of the replicas.',
    NAMESPACE,
  ),
  egressCidrs: texts(
    "IP ranges to which the replicas may open connections, such as those of AWS's APIs, on the port of the S3 API and that of tracing. A NetworkPolicy of your own can allow more. Empty: all except link-local addresses.",
    RANGES,
  ),
  autoscaling: {
    kind: 'object',
    optional: true,
    fields: {
      minReplicas: integer(1, 1000, 'Smallest number of replicas. Without a replica there are no metrics of a queue.'),
      maxReplicas: integer(1, 1000, 'Largest number of replicas.'),
      queueMilliseconds: defaultInteger(
        50,
        1,
        600_000,
        'Mean queue time of the slowest model, in milliseconds, above which replicas are added.',
      ),
      instancesPerReplica: defaultInteger(
        1,
        1,
        1000,
        'Number of instances in a replica, of the model that determines the load or of all steps of an ensemble; replicas are added while more than half a batch waits for them.',
      ),
      prometheusUrl: text(
        'URL of the Prometheus that KEDA queries, with the labels namespace, job and pod. Empty: http://prometheus-operated.NAMESPACE.svc:9090 in the namespace of monitoring.',
      ),
    },
    description:
      'Scales the number of replicas with the queue time and the batches in flight, with KEDA 2.17 or newer. Replicas are removed after 10 minutes of lower load. Empty: replicas decides.',
  },
  monitoring: {
    kind: 'object',
    optional: true,
    fields: {
      namespace: {
        kind: 'string',
        ...NAMESPACE,
        default: 'monitoring',
        description: 'Namespace of Prometheus, the only one that may read metrics.',
      },
      selectorLabels: {
        kind: 'stringMap',
        default: { release: 'kube-prometheus-stack' },
        description: 'Labels by which Prometheus selects monitors and rules.',
      },
      runbookUrl: {
        kind: 'string',
        // A path, because this package does not know where its repository is hosted.
        default: 'docs/runbook.md',
        pattern: /^(docs\/runbook\.md|https?:\/\/[^\s#]+)$/,
        allowed: 'a URL without #, such as https://git.example.com/serving/blob/main/docs/runbook.md',
        description:
          'Address of docs/runbook.md where on-call people can read it. Each alert links to its section. The default is no link.',
      },
      slo: {
        kind: 'object',
        optional: true,
        fields: {
          p99Milliseconds: {
            ...integer(
              1,
              600_000,
              'Time in Triton, in milliseconds, that 99 of 100 requests to each model must not exceed, including the queue.',
            ),
            optional: true,
          },
          errorRate: {
            kind: 'number',
            minimum: 0.00001,
            // A page needs 14.4 times this share of the requests, so it must be less than 1/14.4.
            maximum: 0.05,
            optional: true,
            description: 'Share of the requests to each model that may fail: 0.001 is one in a thousand.',
          },
        },
        description:
          'Objectives for each model, with alerts on how fast its requests use up what may miss them. Empty: none.',
      },
    },
    description:
      'A ServiceMonitor, a PrometheusRule with alerts and a Grafana dashboard, for the Prometheus operator and the sidecar of Grafana. Set at least one member. Empty: none of these objects, and the namespace monitoring may read metrics.',
  },
  tracing: {
    kind: 'object',
    optional: true,
    fields: {
      otlpEndpoint: {
        kind: 'string',
        check: checkCollector,
        allowed: 'a URL without /v1/traces, such as http://collector.monitoring.svc:4318',
        description:
          'URL of the OTLP/HTTP receiver of an OpenTelemetry collector. The NetworkPolicy allows its port: in the namespace of a Service NAME.NAMESPACE.svc, otherwise in egressCidrs.',
      },
      sampleRate: {
        kind: 'number',
        minimum: 0,
        maximum: 1,
        default: 0,
        description:
          'Share of requests that are traced, rounded to one of N. Requests with the header traceparent are always traced.',
      },
    },
    description: 'Triton sends traces of requests to an OpenTelemetry collector. Empty: no traces.',
  },
  extraArguments: {
    ...texts('Arguments of tritonserver, --NAME=VALUE each, in addition to those that this package sets.'),
    check: checkArgument,
    allowed: `--NAME=VALUE, but not ${formatList(OWN_ARGUMENTS)}`,
  },
  environment: {
    kind: 'stringMap',
    ...VARIABLES,
    secret: true,
    input: true,
    description:
      'Environment variables of the replicas, in addition to those that this package sets. If one of them is encrypted ("pulumi config set --secret --path environment.NAME"), all are kept in a Secret.',
  },
} as const satisfies Fields;

/** The arguments of TritonServer: the settings of a stack file, and what a stack decides itself. */
export const TRITON_SERVER_FIELDS = {
  modelRepository: {
    kind: 'string',
    pattern: LOCATION,
    allowed: 's3://BUCKET/PREFIX',
    input: true,
    description: 'Location of the models, s3://BUCKET/PREFIX.',
  },
  region: {
    kind: 'string',
    // S3 APIs other than AWS's have other names.
    pattern: /^\S+$/,
    allowed: 'a region such as eu-central-1',
    input: true,
    description: 'Region of the bucket.',
  },
  endpointUrl: {
    ...text("URL of an S3 API other than AWS's, http://HOST:PORT or https://HOST:PORT. Empty: AWS."),
    pattern: /^https?:\/\/[^/\s]+$/,
    allowed: '"http://HOST:PORT" or "https://HOST:PORT"',
    input: true,
  },
  credentials: {
    kind: 'object',
    fields: {
      roleArn: {
        ...text(
          'ARN of the IAM role that the agents assume (IRSA). It must only be able to read the prefix and the releases beside it, and trust the service account NAME of the namespace.',
        ),
        pattern: iamArn('role'),
        allowed: 'the ARN of an IAM role',
        input: true,
      },
      accessKeyId: { ...text("Id of an access key, for an S3 API other than AWS's."), input: true },
      secretAccessKey: { ...text('Secret of the access key, which is kept in a Secret.'), input: true },
    },
    description: 'How the agents authenticate to the bucket: roleArn, or accessKeyId with secretAccessKey.',
  },
  ...TRITON_FIELDS,
  secretEnvironment: {
    kind: 'stringMap',
    ...VARIABLES,
    input: true,
    description: 'Further environment variables, which are kept in a Secret.',
  },
  protect: {
    kind: 'boolean',
    optional: true,
    description:
      'Whether Pulumi refuses to delete the created namespace, because Kubernetes deletes all its objects too. Default: the option of the component.',
  },
  omitReplicas: {
    kind: 'boolean',
    default: false,
    description:
      'With autoscaling, whether the Deployment has no number of replicas, because a tool that applies it repeatedly would reset the number each time.',
  },
  sharedGpus: {
    kind: 'boolean',
    default: true,
    description:
      'Whether nodes may offer a GPU several times (time slices), so that a pod may get fewer GPUs than it requests. If true, only a pod that sees no GPU fails to start; otherwise also one that sees fewer than gpusPerPod.',
  },
  sharedNodes: {
    kind: 'boolean',
    default: false,
    description:
      'Whether several pods should run on a node that has GPUs for them. If false, they prefer different nodes.',
  },
  createIngressClass: {
    kind: 'boolean',
    default: false,
    description:
      'Whether to create exposure.className for the controller of EKS Auto Mode, which has no class by default.',
  },
  loadBalancerTags: {
    kind: 'stringMap',
    description:
      'Tags of the load balancer. With EKS Auto Mode, the role of the cluster must be allowed to set them, otherwise no load balancer is created.',
  },
} as const satisfies Fields;
