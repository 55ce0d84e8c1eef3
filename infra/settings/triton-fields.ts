import { CONTROL_KEY, CONTROL_KEY_ALLOWED } from '../../scripts/lib/triton/control-key';
import { TAINT_EFFECTS } from '../gpu-labels';
import { DEFAULTS } from '../triton/defaults';
import { LIMITS, type Limits } from '../triton/limits';
import type { Fields } from './fields';

/** Defaults in words: `drainSeconds 15, exitTimeoutSeconds 30`. */
const told = (defaults: Readonly<Record<string, string | number>>): string =>
  Object.entries(defaults)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');

const integer = (limits: Limits, description: string) =>
  ({ kind: 'integer', ...limits, optional: true, description }) as const;
const text = (description: string) => ({ kind: 'text', optional: true, description }) as const;
const texts = (description: string) => ({ kind: 'texts', default: [], description }) as const;

const { cpu, ...otherResources } = DEFAULTS.resources;

/** What Triton is told; the meanings are those of TritonServerArgs. */
export const TRITON_FIELDS = {
  namespace: { kind: 'text', default: 'triton', description: 'Namespace of the servers.' },
  createNamespace: { kind: 'flag', default: true, description: 'false: the namespace is there already.' },
  image: text('Image of Triton, with a version or digest. Default: the release that the Dockerfile names.'),
  replicas: {
    kind: 'integer',
    ...LIMITS.replicas,
    default: DEFAULTS.replicas,
    description: 'Servers, where they are not scaled.',
  },
  gpusPerPod: {
    kind: 'integer',
    ...LIMITS.gpusPerPod,
    default: DEFAULTS.gpusPerPod,
    description: 'GPUs of each server; 0 serves on CPUs.',
  },
  nodeSelector: { kind: 'map', description: 'Labels of the nodes for servers, besides those of gpuNodePools.' },
  tolerations: {
    kind: 'objects',
    fields: {
      key: { kind: 'text', description: 'Key of the taint.' },
      operator: {
        kind: 'choice',
        choices: ['Equal', 'Exists'],
        optional: true,
        description: 'How values are compared.',
      },
      value: text('Value of the taint.'),
      effect: {
        kind: 'choice',
        choices: TAINT_EFFECTS,
        optional: true,
        description: 'Effect of the taint.',
      },
    },
    description: 'Taints that servers accept, besides those of gpuNodePools.',
  },
  runtimeClassName: text('Runtime class of the servers, such as nvidia. Default: none.'),
  priorityClassName: text('Priority class of the servers. Default: none.'),
  resources: {
    kind: 'object',
    optional: true,
    fields: {
      cpu: { kind: 'integer', minimum: 1, maximum: 256, optional: true, description: 'Cores kept for it.' },
      cpuLimit: { kind: 'integer', minimum: 1, maximum: 256, optional: true, description: 'Cores at most.' },
      memoryGiB: integer(LIMITS.resources.memoryGiB, 'Memory.'),
      sharedMemoryGiB: integer(LIMITS.resources.sharedMemoryGiB, '/dev/shm, a part of the memory.'),
      scratchGiB: integer(LIMITS.resources.scratchGiB, 'Disk for downloaded models.'),
    },
    description: `What one server gets: ${told({ cpu, cpuLimit: 'twice that', ...otherResources })}.`,
  },
  startup: {
    kind: 'object',
    optional: true,
    fields: {
      downloadSeconds: integer(LIMITS.startup.downloadSeconds, 'Downloading all models.'),
      loadSeconds: integer(LIMITS.startup.loadSeconds, 'Loading them.'),
      warmUpSeconds: integer(LIMITS.startup.warmUpSeconds, 'Warming them up.'),
    },
    description: `How long a server may take to start: ${told(DEFAULTS.startup)}.`,
  },
  shutdown: {
    kind: 'object',
    optional: true,
    fields: {
      drainSeconds: integer(LIMITS.shutdown.drainSeconds, 'It goes on serving so long.'),
      exitTimeoutSeconds: integer(LIMITS.shutdown.exitTimeoutSeconds, 'Then open requests get so long.'),
    },
    description: `How a server ends: ${told(DEFAULTS.shutdown)}.`,
  },
  rollout: {
    kind: 'object',
    optional: true,
    fields: {
      strategy: {
        kind: 'choice',
        choices: ['in-place', 'surge'],
        optional: true,
        description: 'in-place needs no spare GPU.',
      },
      maxUnavailable: integer(LIMITS.rollout.maxUnavailable, 'Servers that may be missing.'),
    },
    description: `How servers are replaced: strategy in-place (needs no spare GPU) or surge, maxUnavailable ${DEFAULTS.rollout.maxUnavailable}.`,
  },
  exposure: {
    kind: 'choice',
    choices: ['cluster', 'internal-load-balancer', 'ingress'],
    default: 'cluster',
    description:
      'Who reaches the servers: the cluster only, the VPC through a load balancer, or others through an ingress with TLS and authentication.',
  },
  clientCidrs: texts('Addresses that may call through the load balancer or ingress.'),
  loadBalancerCidrs: texts('Where the load balancer or ingress controller is. Empty: vpcCidr.'),
  loadBalancerClass: text(
    `Class of the load balancer. Default: ${DEFAULTS.loadBalancerClass}, which is EKS Auto Mode's; AWS Load Balancer Controller has service.k8s.aws/nlb.`,
  ),
  ingress: {
    kind: 'object',
    optional: true,
    fields: {
      host: { kind: 'text', description: 'Name of the host.' },
      className: text(`Class of the ingress. Default: ${DEFAULTS.ingress.className}.`),
      scheme: {
        kind: 'choice',
        choices: ['internal', 'internet-facing'],
        optional: true,
        description: `Default: ${DEFAULTS.ingress.scheme}.`,
      },
      certificateArn: text('Certificate of AWS Certificate Manager; or give tlsSecretName.'),
      tlsSecretName: text('Secret with the certificate.'),
      trustStoreArn: text('Clients show a certificate of this trust store.'),
      annotations: {
        kind: 'map',
        optional: true,
        description: 'Annotations that make another controller authenticate.',
      },
      jwt: {
        kind: 'object',
        optional: true,
        fields: {
          issuer: { kind: 'text', description: 'Issuer.' },
          jwksEndpoint: { kind: 'text', description: "Address of the issuer's public keys." },
        },
        description: 'Programs send a token of this issuer.',
      },
      oidc: {
        kind: 'object',
        optional: true,
        fields: {
          issuer: { kind: 'text', description: 'Issuer.' },
          authorizationEndpoint: { kind: 'text', description: 'Where people sign in.' },
          tokenEndpoint: { kind: 'text', description: 'Where tokens come from.' },
          userInfoEndpoint: { kind: 'text', description: 'Who they are.' },
          clientId: { kind: 'text', description: 'Id of the application; its secret is ingressOidcClientSecret.' },
        },
        description: 'People sign in.',
      },
    },
    description:
      'Of exposure ingress: host, certificateArn or tlsSecretName, and one of trustStoreArn, jwt, oidc, annotations.',
  },
  ingressOidcClientSecret: { kind: 'text', optional: true, secret: true, description: 'Secret of ingress.oidc.' },
  clientNamespaces: texts('Namespaces whose pods may call, besides the own one.'),
  monitoringNamespace: { kind: 'text', default: DEFAULTS.monitoringNamespace, description: 'Namespace of Prometheus.' },
  egressCidrs: texts("Where AWS's APIs are. Empty: everywhere but link-local addresses."),
  autoscaling: {
    kind: 'object',
    optional: true,
    fields: {
      kind: { kind: 'choice', choices: ['keda', 'custom-metrics'], description: 'Who scales.' },
      minReplicas: { kind: 'integer', ...LIMITS.autoscaling.minReplicas, description: 'Fewest servers.' },
      maxReplicas: { kind: 'integer', ...LIMITS.autoscaling.maxReplicas, description: 'Most servers.' },
      queueMilliseconds: integer(LIMITS.autoscaling.queueMilliseconds, 'Queue time to scale at.'),
      prometheusUrl: text('Where KEDA finds Prometheus.'),
      scaleDownAfterSeconds: integer(LIMITS.autoscaling.scaleDownAfterSeconds, 'Wait so long with fewer.'),
    },
    description: `Servers follow the queue time: kind keda or custom-metrics, minReplicas, maxReplicas, queueMilliseconds ${DEFAULTS.queueMilliseconds}. Empty: replicas.`,
  },
  monitoring: {
    kind: 'object',
    optional: true,
    fields: {
      serviceMonitor: { kind: 'flag', optional: true, description: 'ServiceMonitor.' },
      alerts: { kind: 'flag', optional: true, description: 'PrometheusRule.' },
      dashboard: { kind: 'flag', optional: true, description: 'Grafana dashboard.' },
      selectorLabels: { kind: 'map', optional: true, description: 'Labels by which Prometheus selects.' },
      scrapeSeconds: integer(LIMITS.monitoring.scrapeSeconds, 'How often.'),
    },
    description: 'With the Prometheus operator: serviceMonitor, alerts, dashboard (true each). Empty: none.',
  },
  modelControlKey: {
    kind: 'text',
    optional: true,
    secret: true,
    pattern: CONTROL_KEY,
    allowed: CONTROL_KEY_ALLOWED,
    description: 'Loading and unloading models needs this value. Default: a random one that is made once.',
  },
  publisherGroup: {
    kind: 'text',
    default: 'triton-publishers',
    description: 'Kubernetes group that may list the pods and forward ports to them.',
  },
  extraArguments: texts('Further arguments of tritonserver.'),
  environment: { kind: 'map', description: 'Further environment variables of the servers.' },
} as const satisfies Fields;
