import { TAINT_EFFECTS } from '../gpu/gpu-labels';
import {
  DEFAULTS,
  DRAIN_SECONDS,
  ERROR_RATE_LIMITS,
  KINDS,
  LIMITS,
  PORT_LIMITS,
  SAMPLE_RATE_LIMITS,
  type Limits,
} from '../triton/limits';
import type { Fields } from './fields';

/** Defaults in words: `drainSeconds 15, exitTimeoutSeconds 30`. */
const describeDefaults = (defaults: Readonly<Record<string, string | number>>): string =>
  Object.entries(defaults)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');

const integer = (limits: Limits, description: string) =>
  ({ kind: 'integer', ...limits, optional: true, description }) as const;
const text = (description: string) => ({ kind: 'string', optional: true, description }) as const;
const texts = (description: string) => ({ kind: 'stringArray', default: [], description }) as const;

const { cpu, ...otherResources } = DEFAULTS.resources;

/** Settings of the replicas; TritonServerArgs documents each. */
export const TRITON_FIELDS = {
  namespace: {
    kind: 'string',
    default: 'triton',
    description:
      'Kubernetes namespace of the replicas. A change creates all objects and replicas in the new namespace, and then deletes the old ones.',
  },
  createNamespace: {
    kind: 'boolean',
    default: true,
    description:
      'Whether to create the namespace. If false, the namespace must exist, and its labels are left unchanged. A stack that created the namespace then releases it: the namespace stays, and no longer belongs to the stack.',
  },
  image: text(
    'Image of Triton, with a version or digest. Empty: the image of NVIDIA for the release that the Dockerfile names.',
  ),
  agentImage: text(
    `Image of the release agent beside each Triton, with Node.js 20 or newer and a shell, and a version or digest. Empty: the official image of Node.js, from AWS's public registry.`,
  ),
  replicas: {
    kind: 'integer',
    ...LIMITS.replicas,
    default: DEFAULTS.replicas,
    description: 'Number of replicas if autoscaling is empty.',
  },
  gpusPerPod: {
    kind: 'integer',
    ...LIMITS.gpusPerPod,
    default: DEFAULTS.gpusPerPod,
    description: 'Number of GPUs of each replica; with 0 the replicas run on CPUs.',
  },
  nodeSelector: {
    kind: 'stringMap',
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
        description: 'How to compare the value of the taint: Equal or, for any value, Exists.',
      },
      value: text('Value of the taint.'),
      effect: {
        kind: 'choice',
        choices: TAINT_EFFECTS,
        optional: true,
        description: 'Effect of the taint. Default: every effect.',
      },
    },
    description: 'Taints that the replicas tolerate, in addition to those of gpuNodePools.',
  },
  runtimeClassName: text(
    'Runtime class of the pods, such as nvidia, for clusters whose GPU pods need one. Empty: none.',
  ),
  priorityClassName: text('Priority class of the pods. Empty: none.'),
  resources: {
    kind: 'object',
    optional: true,
    fields: {
      cpu: { kind: 'integer', minimum: 1, maximum: 256, optional: true, description: 'Requested CPU cores.' },
      cpuLimit: { kind: 'integer', minimum: 1, maximum: 256, optional: true, description: 'Limit of CPU cores.' },
      memoryGiB: integer(LIMITS.resources.memoryGiB, 'Memory in GiB, which is both request and limit.'),
      sharedMemoryGiB: integer(LIMITS.resources.sharedMemoryGiB, 'Size of /dev/shm in GiB, a part of memoryGiB.'),
      scratchGiB: integer(LIMITS.resources.scratchGiB, 'Disk for downloaded models in GiB, for two releases.'),
    },
    description: `Resources of one replica. Defaults: ${describeDefaults({ cpu, cpuLimit: 'twice that', ...otherResources })}.`,
  },
  startup: {
    kind: 'object',
    optional: true,
    fields: {
      downloadSeconds: integer(LIMITS.startup.downloadSeconds, 'Seconds to download all models.'),
      loadSeconds: integer(LIMITS.startup.loadSeconds, 'Seconds to load all models.'),
      warmUpSeconds: integer(LIMITS.startup.warmUpSeconds, 'Seconds for the warm-up requests of all models.'),
    },
    description: `Time limits for the start of a replica. Defaults: ${describeDefaults(DEFAULTS.startup)}.`,
  },
  shutdown: {
    kind: 'object',
    optional: true,
    fields: {
      drainSeconds: integer(
        LIMITS.shutdown.drainSeconds,
        'Seconds for which a pod keeps serving after a stop was requested, while load balancers deregister it.',
      ),
      exitTimeoutSeconds: integer(LIMITS.shutdown.exitTimeoutSeconds, 'Seconds that open requests may then take.'),
    },
    description: `Times for the stop of a replica. Defaults: drainSeconds ${DRAIN_SECONDS.cluster}, with the exposure ingress ${DRAIN_SECONDS.ingress} and with internal-load-balancer ${DRAIN_SECONDS['internal-load-balancer']}; ${describeDefaults(DEFAULTS.shutdown)}.`,
  },
  rollout: {
    kind: 'object',
    optional: true,
    fields: {
      strategy: {
        kind: 'choice',
        choices: ['in-place', 'surge'],
        optional: true,
        description: 'in-place stops a pod before its replacement starts; surge starts the replacement first.',
      },
      maxUnavailable: integer(
        LIMITS.rollout.maxUnavailable,
        'Number of replicas that may be unavailable at the same time.',
      ),
    },
    description: `How an update replaces replicas: strategy in-place (needs no spare GPU) or surge. Defaults: ${describeDefaults(DEFAULTS.rollout)}.`,
  },
  exposure: {
    kind: 'choice',
    choices: KINDS.exposure,
    default: 'cluster',
    description:
      'Clients that can reach the replicas: those in the cluster, those in the VPC through a load balancer, or those of other networks through an ingress with TLS. A change deletes the present load balancer or ingress, with its address.',
  },
  clientCidrs: texts(
    'IP ranges of clients that may send requests through the load balancer or ingress. Empty: every address that can reach the ingress; a load balancer requires at least one range.',
  ),
  loadBalancerCidrs: texts(
    'IP ranges of the load balancer or ingress controller; required if the VPC is not created here. Every machine and pod with an address in them reaches port 8000. Empty: the public subnets for an ingress that faces the internet, otherwise the private subnets, in which the pods are too.',
  ),
  loadBalancerClass: text(
    `Class of the load balancer, such as service.k8s.aws/nlb of AWS Load Balancer Controller. A change deletes the load balancer and creates another one, with another address. Empty: ${DEFAULTS.loadBalancerClass} of EKS Auto Mode.`,
  ),
  ingress: {
    kind: 'object',
    optional: true,
    fields: {
      host: { kind: 'string', description: 'Host name of the ingress, such as triton.example.com.' },
      className: text(`Ingress class. Default: ${DEFAULTS.ingress.className}.`),
      scheme: {
        kind: 'choice',
        choices: ['internal', 'internet-facing'],
        optional: true,
        description: `Whether the ingress has an address in the VPC or on the internet. Default: ${DEFAULTS.ingress.scheme}.`,
      },
      certificateArn: text('ARN of a certificate of AWS Certificate Manager, for the ingress controllers of AWS.'),
      tlsSecretName: text(
        'Name of a Secret of type kubernetes.io/tls with the certificate, for other ingress controllers.',
      ),
      annotations: {
        kind: 'stringMap',
        optional: true,
        description: 'Further annotations, such as those with which the controller authenticates clients.',
      },
    },
    description:
      'Ingress for the exposure ingress. Requires host, one of certificateArn and tlsSecretName, and annotations that authenticate clients with tlsSecretName or the scheme internet-facing.',
  },
  clientNamespaces: texts('Namespaces whose pods may send requests, in addition to the namespace of the replicas.'),
  monitoringNamespace: {
    kind: 'string',
    default: DEFAULTS.monitoringNamespace,
    description: 'Namespace of Prometheus, the only one that may read metrics.',
  },
  egressCidrs: texts(
    "IP ranges to which the replicas may open connections, such as those of AWS's APIs. Empty: all except link-local addresses.",
  ),
  egressPorts: {
    kind: 'integerArray',
    ...PORT_LIMITS,
    default: [],
    description:
      'TCP ports of egressCidrs to which the replicas may open connections. A list replaces the default, so it must contain the port of S3: [443, 5432] allows S3 and a database. Empty: the port of s3.endpoint, or 443.',
  },
  autoscaling: {
    kind: 'object',
    optional: true,
    fields: {
      kind: {
        kind: 'choice',
        choices: KINDS.autoscaling,
        description:
          'Autoscaler: KEDA, or a HorizontalPodAutoscaler on custom metrics, which also requires monitoring.alerts.',
      },
      minReplicas: { kind: 'integer', ...LIMITS.autoscaling.minReplicas, description: 'Smallest number of replicas.' },
      maxReplicas: { kind: 'integer', ...LIMITS.autoscaling.maxReplicas, description: 'Largest number of replicas.' },
      queueMilliseconds: integer(
        LIMITS.autoscaling.queueMilliseconds,
        'Mean queue time in milliseconds above which replicas are added.',
      ),
      instancesPerReplica: integer(
        LIMITS.autoscaling.instancesPerReplica,
        'Number of instances in a replica, of the model that determines the load or of all steps of an ensemble; replicas are added while more than half a batch waits for them.',
      ),
      prometheusUrl: text('URL of the Prometheus that KEDA queries.'),
      scaleDownAfterSeconds: integer(
        LIMITS.autoscaling.scaleDownAfterSeconds,
        'Seconds of lower load after which replicas are removed.',
      ),
    },
    description: `Scales the number of replicas with the queue time and the batches in flight. Requires kind (keda or custom-metrics), minReplicas and maxReplicas. Defaults: ${describeDefaults(DEFAULTS.autoscaling)}. Empty: replicas decides.`,
  },
  monitoring: {
    kind: 'object',
    optional: true,
    fields: {
      serviceMonitor: {
        kind: 'boolean',
        optional: true,
        description: 'Whether to create a ServiceMonitor, which makes Prometheus scrape the replicas.',
      },
      alerts: {
        kind: 'boolean',
        optional: true,
        description: 'Whether to create a PrometheusRule with the alerts and the metrics of the autoscaler.',
      },
      dashboard: { kind: 'boolean', optional: true, description: 'Whether to create a Grafana dashboard.' },
      selectorLabels: {
        kind: 'stringMap',
        optional: true,
        description: 'Labels by which Prometheus selects monitors and rules.',
      },
      scrapeSeconds: integer(LIMITS.monitoring.scrapeSeconds, 'Seconds between scrapes.'),
      runbookUrl: text(
        'Address of docs/runbook.md where on-call people can read it. Each alert links to its section. Empty: the path docs/runbook.md, which is no link.',
      ),
    },
    description: `Objects for the Prometheus operator and Grafana. If one member is set, serviceMonitor, alerts and dashboard are true by default, and scrapeSeconds is ${DEFAULTS.scrapeSeconds}. Empty: none of these objects.`,
  },
  slo: {
    kind: 'object',
    optional: true,
    fields: {
      p99Milliseconds: integer(
        LIMITS.slo.p99Milliseconds,
        'Time in Triton, in milliseconds, that 99 of 100 requests to each model must not exceed, including the queue.',
      ),
      errorRate: {
        kind: 'number',
        ...ERROR_RATE_LIMITS,
        optional: true,
        description: 'Share of the requests to each model that may fail: 0.001 is one in a thousand.',
      },
    },
    description:
      'Objectives for each model, with alerts on how fast its requests use up what may miss them: p99Milliseconds is the time in Triton that 99 of 100 requests must not exceed, errorRate the share of requests that may fail, such as 0.001. Requires monitoring.alerts. Empty: none.',
  },
  tracing: {
    kind: 'object',
    optional: true,
    fields: {
      otlpEndpoint: {
        kind: 'string',
        description:
          'URL of the OTLP/HTTP receiver of an OpenTelemetry collector without /v1/traces, such as http://collector.monitoring.svc:4318.',
      },
      sampleRate: {
        kind: 'number',
        ...SAMPLE_RATE_LIMITS,
        optional: true,
        description: 'Share of requests that are traced, in addition to those with a traceparent.',
      },
    },
    description: `Triton sends traces of requests to an OpenTelemetry collector. Requires otlpEndpoint, the URL of its OTLP/HTTP receiver without /v1/traces; the NetworkPolicy allows its port. sampleRate is the share of requests that are traced, rounded to one of N; requests with the header traceparent are always traced. Default: sampleRate ${DEFAULTS.tracing.sampleRate}. Empty: no traces.`,
  },
  publisherGroup: {
    kind: 'string',
    default: 'triton-publishers',
    description: 'Kubernetes group whose members may publish: they may list the pods and forward ports to them.',
  },
  extraArguments: texts('Arguments of tritonserver, --NAME=VALUE each, in addition to those that this package sets.'),
  environment: {
    kind: 'stringMap',
    secret: true,
    description:
      'Environment variables of the replicas, in addition to those that this package sets. If one of them is encrypted ("pulumi config set --secret --path environment.NAME"), all are kept in a Secret.',
  },
} as const satisfies Fields;
