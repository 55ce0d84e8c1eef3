import { CONTROL_KEY, CONTROL_KEY_ALLOWED } from '../../src/triton/control-key';
import { TAINT_EFFECTS } from '../gpu/gpu-labels';
import { DEFAULTS } from '../triton/limits';
import { LIMITS, type Limits } from '../triton/limits';
import type { Fields } from './fields';

/** Defaults in words: `drainSeconds 15, exitTimeoutSeconds 30`. */
const describeDefaults = (defaults: Readonly<Record<string, string | number>>): string =>
  Object.entries(defaults)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');

const integer = (limits: Limits, description: string) =>
  ({ kind: 'integer', ...limits, optional: true, description }) as const;
const text = (description: string) => ({ kind: 'text', optional: true, description }) as const;
const texts = (description: string) => ({ kind: 'texts', default: [], description }) as const;

const { cpu, ...otherResources } = DEFAULTS.resources;

/** Settings of the replicas; TritonServerArgs documents each. */
export const TRITON_FIELDS = {
  namespace: { kind: 'text', default: 'triton', description: 'Namespace of the servers.' },
  createNamespace: { kind: 'flag', default: true, description: 'false: the namespace exists.' },
  image: text('Image of Triton, with a version or digest. Default: the release that the Dockerfile names.'),
  replicas: {
    kind: 'integer',
    ...LIMITS.replicas,
    default: DEFAULTS.replicas,
    description: 'Number of replicas without autoscaling.',
  },
  gpusPerPod: {
    kind: 'integer',
    ...LIMITS.gpusPerPod,
    default: DEFAULTS.gpusPerPod,
    description: 'GPUs of each replica; 0 serves on CPUs.',
  },
  nodeSelector: { kind: 'map', description: 'Labels of the nodes to run on, in addition to those of gpuNodePools.' },
  tolerations: {
    kind: 'objects',
    fields: {
      key: { kind: 'text', description: 'Key of the taint.' },
      operator: {
        kind: 'choice',
        choices: ['Equal', 'Exists'],
        optional: true,
        description: 'How to compare the value.',
      },
      value: text('Value of the taint.'),
      effect: {
        kind: 'choice',
        choices: TAINT_EFFECTS,
        optional: true,
        description: 'Effect of the taint.',
      },
    },
    description: 'Taints to tolerate, in addition to those of gpuNodePools.',
  },
  runtimeClassName: text('Runtime class of the servers, such as nvidia. Default: none.'),
  priorityClassName: text('Priority class of the servers. Default: none.'),
  resources: {
    kind: 'object',
    optional: true,
    fields: {
      cpu: { kind: 'integer', minimum: 1, maximum: 256, optional: true, description: 'CPU cores requested.' },
      cpuLimit: { kind: 'integer', minimum: 1, maximum: 256, optional: true, description: 'CPU core limit.' },
      memoryGiB: integer(LIMITS.resources.memoryGiB, 'Memory.'),
      sharedMemoryGiB: integer(LIMITS.resources.sharedMemoryGiB, 'Size of /dev/shm, part of memoryGiB.'),
      scratchGiB: integer(LIMITS.resources.scratchGiB, 'Disk for downloaded models.'),
    },
    description: `Resources of one replica: ${describeDefaults({ cpu, cpuLimit: 'twice that', ...otherResources })}.`,
  },
  startup: {
    kind: 'object',
    optional: true,
    fields: {
      downloadSeconds: integer(LIMITS.startup.downloadSeconds, 'To download all models.'),
      loadSeconds: integer(LIMITS.startup.loadSeconds, 'To load them.'),
      warmUpSeconds: integer(LIMITS.startup.warmUpSeconds, 'To warm them up.'),
    },
    description: `Time limits for the start of a replica: ${describeDefaults(DEFAULTS.startup)}.`,
  },
  shutdown: {
    kind: 'object',
    optional: true,
    fields: {
      drainSeconds: integer(
        LIMITS.shutdown.drainSeconds,
        'How long the pod keeps serving after a stop was requested, while load balancers deregister it.',
      ),
      exitTimeoutSeconds: integer(LIMITS.shutdown.exitTimeoutSeconds, 'How long open requests may then take.'),
    },
    description: `How a replica stops: ${describeDefaults(DEFAULTS.shutdown)}.`,
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
      maxUnavailable: integer(LIMITS.rollout.maxUnavailable, 'Replicas that may be unavailable.'),
    },
    description: `How replicas are replaced: strategy in-place (needs no spare GPU) or surge, maxUnavailable ${DEFAULTS.rollout.maxUnavailable}.`,
  },
  exposure: {
    kind: 'choice',
    choices: ['cluster', 'internal-load-balancer', 'ingress'],
    default: 'cluster',
    description:
      'What can reach the replicas: only the cluster, the VPC through a load balancer, or other networks through an ingress with TLS and authentication.',
  },
  clientCidrs: texts('Addresses that may send requests through the load balancer or ingress.'),
  loadBalancerCidrs: texts('Addresses of the load balancer or ingress controller. Empty: vpcCidr.'),
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
      trustStoreArn: text('Trust store that verifies the certificates of clients.'),
      annotations: {
        kind: 'map',
        optional: true,
        description: 'Annotations with which another ingress controller authenticates clients.',
      },
      jwt: {
        kind: 'object',
        optional: true,
        fields: {
          issuer: { kind: 'text', description: 'Issuer.' },
          jwksEndpoint: { kind: 'text', description: "Address of the issuer's public keys." },
        },
        description: 'Programs authenticate with a JSON web token of this issuer.',
      },
      oidc: {
        kind: 'object',
        optional: true,
        fields: {
          issuer: { kind: 'text', description: 'Issuer.' },
          authorizationEndpoint: { kind: 'text', description: 'Authorization endpoint.' },
          tokenEndpoint: { kind: 'text', description: 'Token endpoint.' },
          userInfoEndpoint: { kind: 'text', description: 'User info endpoint.' },
          clientId: { kind: 'text', description: 'Id of the application; its secret is ingressOidcClientSecret.' },
        },
        description: 'People authenticate by OpenID Connect.',
      },
    },
    description:
      'For exposure ingress: host, certificateArn or tlsSecretName, and one of trustStoreArn, jwt, oidc, annotations.',
  },
  ingressOidcClientSecret: { kind: 'text', optional: true, secret: true, description: 'Secret of ingress.oidc.' },
  clientNamespaces: texts('Further namespaces whose pods may send requests.'),
  monitoringNamespace: { kind: 'text', default: DEFAULTS.monitoringNamespace, description: 'Namespace of Prometheus.' },
  egressCidrs: texts("Addresses of AWS's APIs. Empty: all but link-local addresses."),
  autoscaling: {
    kind: 'object',
    optional: true,
    fields: {
      kind: { kind: 'choice', choices: ['keda', 'custom-metrics'], description: 'Autoscaler.' },
      minReplicas: { kind: 'integer', ...LIMITS.autoscaling.minReplicas, description: 'Smallest number of replicas.' },
      maxReplicas: { kind: 'integer', ...LIMITS.autoscaling.maxReplicas, description: 'Largest number of replicas.' },
      queueMilliseconds: integer(LIMITS.autoscaling.queueMilliseconds, 'Queue time above which replicas are added.'),
      prometheusUrl: text('Address of Prometheus, for KEDA.'),
      scaleDownAfterSeconds: integer(
        LIMITS.autoscaling.scaleDownAfterSeconds,
        'How long to wait before replicas are removed.',
      ),
    },
    description: `Scale replicas by queue time: kind keda or custom-metrics, minReplicas, maxReplicas, queueMilliseconds ${DEFAULTS.queueMilliseconds}. Empty: the setting replicas.`,
  },
  monitoring: {
    kind: 'object',
    optional: true,
    fields: {
      serviceMonitor: { kind: 'flag', optional: true, description: 'ServiceMonitor.' },
      alerts: { kind: 'flag', optional: true, description: 'PrometheusRule.' },
      dashboard: { kind: 'flag', optional: true, description: 'Grafana dashboard.' },
      selectorLabels: { kind: 'map', optional: true, description: 'Labels that Prometheus selects.' },
      scrapeSeconds: integer(LIMITS.monitoring.scrapeSeconds, 'Seconds between scrapes.'),
    },
    description: 'For the Prometheus operator: serviceMonitor, alerts, dashboard (true or false each). Empty: none.',
  },
  modelControlKey: {
    kind: 'text',
    optional: true,
    secret: true,
    pattern: CONTROL_KEY,
    allowed: CONTROL_KEY_ALLOWED,
    description: 'Key that requests to load and unload models must send. Default: a random key, created once.',
  },
  publisherGroup: {
    kind: 'text',
    default: 'triton-publishers',
    description: 'Kubernetes group that may list the pods and forward ports to them.',
  },
  extraArguments: texts('Further arguments of tritonserver.'),
  environment: { kind: 'map', description: 'Further environment variables of the servers.' },
} as const satisfies Fields;
