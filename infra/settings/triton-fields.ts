import { CONTROL_KEY, CONTROL_KEY_ALLOWED } from '../../scripts/lib/triton/control-key';
import type { Fields } from './fields';

const seconds = (description: string) =>
  ({ kind: 'integer', minimum: 0, maximum: 86_400, optional: true, description }) as const;
const gibibytes = (description: string) =>
  ({ kind: 'integer', minimum: 1, maximum: 16_384, optional: true, description }) as const;
const text = (description: string) => ({ kind: 'text', optional: true, description }) as const;
const texts = (description: string) => ({ kind: 'texts', default: [], description }) as const;

/** What Triton is told; the meanings are those of TritonServerArgs. */
export const TRITON_FIELDS = {
  namespace: { kind: 'text', default: 'triton', description: 'Namespace of the servers.' },
  createNamespace: { kind: 'flag', default: true, description: 'false: the namespace is there already.' },
  image: text('Image of Triton, with a version or digest. Default: the release that the Dockerfile names.'),
  replicas: {
    kind: 'integer',
    minimum: 0,
    maximum: 100,
    default: 2,
    description: 'Servers, where they are not scaled.',
  },
  gpusPerPod: {
    kind: 'integer',
    minimum: 0,
    maximum: 8,
    default: 1,
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
        choices: ['NoSchedule', 'PreferNoSchedule', 'NoExecute'],
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
      memoryGiB: gibibytes('Memory.'),
      sharedMemoryGiB: gibibytes('/dev/shm, a part of the memory.'),
      scratchGiB: gibibytes('Disk for downloaded models.'),
    },
    description: 'What one server gets: cpu 2, cpuLimit twice that, memoryGiB 8, sharedMemoryGiB 1, scratchGiB 20.',
  },
  startup: {
    kind: 'object',
    optional: true,
    fields: {
      downloadSeconds: seconds('Downloading all models.'),
      loadSeconds: seconds('Loading them.'),
      warmUpSeconds: seconds('Warming them up.'),
    },
    description: 'How long a server may take to start: downloadSeconds 300, loadSeconds 180, warmUpSeconds 120.',
  },
  shutdown: {
    kind: 'object',
    optional: true,
    fields: {
      drainSeconds: seconds('It goes on serving so long.'),
      exitTimeoutSeconds: seconds('Then open requests get so long.'),
    },
    description: 'How a server ends: drainSeconds 15, exitTimeoutSeconds 30.',
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
      maxUnavailable: {
        kind: 'integer',
        minimum: 1,
        maximum: 100,
        optional: true,
        description: 'Servers that may be missing.',
      },
    },
    description: 'How servers are replaced: strategy in-place (needs no spare GPU) or surge, maxUnavailable 1.',
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
  ingress: {
    kind: 'object',
    optional: true,
    fields: {
      host: { kind: 'text', description: 'Name of the host.' },
      className: text('Class of the ingress. Default: alb.'),
      scheme: {
        kind: 'choice',
        choices: ['internal', 'internet-facing'],
        optional: true,
        description: 'Default: internal.',
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
  clientNamespaces: texts('Namespaces whose pods may call. Empty: the own one.'),
  monitoringNamespace: { kind: 'text', default: 'monitoring', description: 'Namespace of Prometheus.' },
  egressCidrs: texts("Where AWS's APIs are. Empty: everywhere but link-local addresses."),
  autoscaling: {
    kind: 'object',
    optional: true,
    fields: {
      kind: { kind: 'choice', choices: ['keda', 'custom-metrics'], description: 'Who scales.' },
      minReplicas: { kind: 'integer', minimum: 1, maximum: 100, description: 'Fewest servers.' },
      maxReplicas: { kind: 'integer', minimum: 1, maximum: 100, description: 'Most servers.' },
      queueMilliseconds: {
        kind: 'integer',
        minimum: 1,
        maximum: 60_000,
        optional: true,
        description: 'Queue time to scale at.',
      },
      prometheusUrl: text('Where KEDA finds Prometheus.'),
      scaleDownAfterSeconds: seconds('Wait so long with fewer.'),
    },
    description:
      'Servers follow the queue time: kind keda or custom-metrics, minReplicas, maxReplicas, queueMilliseconds 50. Empty: replicas.',
  },
  monitoring: {
    kind: 'object',
    optional: true,
    fields: {
      serviceMonitor: { kind: 'flag', optional: true, description: 'ServiceMonitor.' },
      alerts: { kind: 'flag', optional: true, description: 'PrometheusRule.' },
      dashboard: { kind: 'flag', optional: true, description: 'Grafana dashboard.' },
      selectorLabels: { kind: 'map', optional: true, description: 'Labels by which Prometheus selects.' },
      scrapeSeconds: { kind: 'integer', minimum: 1, maximum: 300, optional: true, description: 'How often.' },
    },
    description: 'With the Prometheus operator: serviceMonitor, alerts, dashboard (true each). Empty: none.',
  },
  modelControlKey: {
    kind: 'text',
    optional: true,
    secret: true,
    pattern: CONTROL_KEY,
    allowed: CONTROL_KEY_ALLOWED,
    description: 'Loading and unloading models needs this value. Default: whoever may call may load.',
  },
  publisherGroup: {
    kind: 'text',
    default: 'triton-publishers',
    description: 'Kubernetes group that may list the pods and forward ports to them.',
  },
  extraArguments: texts('Further arguments of tritonserver.'),
  environment: { kind: 'map', description: 'Further environment variables of the servers.' },
} as const satisfies Fields;
