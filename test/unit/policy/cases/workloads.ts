import type { Resource } from '../../../../policy/rule';
import { changed, resource, withUnknown, type Cases } from './case';
import { SERVER } from './pods';

const DEPLOYMENT = 'kubernetes:apps/v1:Deployment';
const NAMESPACE = 'kubernetes:core/v1:Namespace';
const SERVICE = 'kubernetes:core/v1:Service';
const INGRESS = 'kubernetes:networking.k8s.io/v1:Ingress';
const NODE_POOL = 'kubernetes:karpenter.sh/v1:NodePool';
const ENFORCE = 'pod-security.kubernetes.io/enforce';
const SCHEME = 'service.beta.kubernetes.io/aws-load-balancer-scheme';

const server = resource(DEPLOYMENT, 'triton', SERVER);
const single = resource(DEPLOYMENT, 'triton', changed(SERVER, 'spec.replicas', 1));
const budget = (matchLabels: object, namespace = 'triton'): Resource =>
  resource('kubernetes:policy/v1:PodDisruptionBudget', 'triton', {
    metadata: { namespace },
    spec: { selector: { matchLabels }, maxUnavailable: 1 },
  });
const networkPolicy = (policyTypes: string[], matchLabels: object = {}): Resource =>
  resource('kubernetes:networking.k8s.io/v1:NetworkPolicy', 'triton', {
    metadata: { namespace: 'triton' },
    spec: { podSelector: { matchLabels }, policyTypes },
  });
const noBudget = `${DEPLOYMENT} "triton": no PodDisruptionBudget selects its pods; add one with the labels of the pods.`;

const POOL = {
  spec: {
    limits: { 'nvidia.com/gpu': 8 },
    template: {
      spec: {
        taints: [{ key: 'nvidia.com/gpu', effect: 'NoSchedule' }],
        requirements: [{ key: 'node.kubernetes.io/instance-type', operator: 'In', values: ['g5.xlarge', 'g6.xlarge'] }],
      },
    },
  },
};
const pool = (path?: string, to?: unknown): Resource =>
  resource(NODE_POOL, 'gpu', path === undefined ? POOL : changed(POOL, path, to));

const ingress = (annotations: Record<string, string>): Resource =>
  resource(INGRESS, 'triton', {
    metadata: {
      annotations: Object.fromEntries(
        Object.entries(annotations).map(([name, value]) => [`alb.ingress.kubernetes.io/${name}`, value]),
      ),
    },
  });

export const workloadCases: Cases = {
  'node-pool-limits': {
    passes: { 'of GPUs': [pool()] },
    fails: {
      none: {
        stack: [pool('spec.limits', {})],
        says: `${NODE_POOL} "gpu": spec.limits is {}; set cpu, memory or nvidia.com/gpu.`,
      },
    },
  },
  'node-pool-gpu-tainted': {
    passes: {
      tainted: [pool()],
      'without GPUs': [
        resource(
          NODE_POOL,
          'system',
          changed(changed(POOL, 'spec.template.spec.taints', []), 'spec.template.spec.requirements', [
            { key: 'eks.amazonaws.com/instance-category', operator: 'In', values: ['c', 'm'] },
            { key: 'eks.amazonaws.com/instance-gpu-count', operator: 'DoesNotExist' },
          ]),
        ),
      ],
    },
    fails: {
      'GPUs by type': {
        stack: [pool('spec.template.spec.taints', [])],
        says: `${NODE_POOL} "gpu": spec.template.spec.taints is []; add { key: "nvidia.com/gpu", effect: "NoSchedule" }.`,
      },
      'GPUs by name': {
        stack: [
          resource(NODE_POOL, 'gpu', {
            spec: {
              template: {
                spec: { requirements: [{ key: 'eks.amazonaws.com/instance-gpu-name', operator: 'Exists' }] },
              },
            },
          }),
        ],
        says: `${NODE_POOL} "gpu": spec.template.spec.taints is not set; add { key: "nvidia.com/gpu", effect: "NoSchedule" }.`,
      },
    },
  },
  'namespace-restricted': {
    passes: {
      restricted: [resource(NAMESPACE, 'triton', { metadata: { labels: { [ENFORCE]: 'restricted' } } })],
      "the nodes' own": [resource(NAMESPACE, 'agents', { metadata: { name: 'gpu-node-agents' } })],
    },
    fails: {
      baseline: {
        stack: [resource(NAMESPACE, 'triton', { metadata: { labels: { [ENFORCE]: 'baseline' } } })],
        says: `${NAMESPACE} "triton": metadata.labels.${ENFORCE} is "baseline"; set it to restricted.`,
      },
      'not set': {
        stack: [resource(NAMESPACE, 'triton', {})],
        says: `${NAMESPACE} "triton": metadata.labels.${ENFORCE} is not set; set it to restricted.`,
      },
    },
  },
  'workload-has-disruption-budget': {
    passes: {
      'by labels': [server, budget({ app: 'triton' })],
      'one pod only': [single],
      'replicas that an autoscaler sets, with a budget': [
        resource(DEPLOYMENT, 'triton', changed(SERVER, 'spec.replicas', undefined)),
        budget({ app: 'triton', tier: 'gpu' }),
      ],
    },
    fails: {
      none: { stack: [server], says: [noBudget] },
      'of other pods': { stack: [server, budget({ app: 'other' })], says: [noBudget] },
      'in another namespace': { stack: [server, budget({ app: 'triton' }, 'default')], says: [noBudget] },
    },
  },
  'workload-has-network-policy': {
    passes: {
      'both ways in one': [server, networkPolicy(['Ingress', 'Egress'], { app: 'triton' })],
      'both ways in two': [server, networkPolicy(['Ingress']), networkPolicy(['Egress'])],
    },
    fails: {
      'one way': {
        stack: [server, networkPolicy(['Ingress'])],
        says: `${DEPLOYMENT} "triton": no NetworkPolicy with policyTypes Egress selects its pods; add one with the labels of the pods.`,
      },
      'of other pods': {
        stack: [server, networkPolicy(['Ingress', 'Egress'], { app: 'other' })],
        says: `${DEPLOYMENT} "triton": no NetworkPolicy with policyTypes Ingress and Egress selects its pods; add one with the labels of the pods.`,
      },
    },
  },
  'ingress-tls': {
    passes: {
      'a Secret': [resource(INGRESS, 'triton', { spec: { tls: [{ secretName: 'tls' }] } })],
      'a certificate of AWS': [
        resource(INGRESS, 'triton', {
          metadata: { annotations: { 'alb.ingress.kubernetes.io/certificate-arn': 'arn:aws:acm:::certificate/1' } },
        }),
      ],
    },
    fails: {
      none: {
        stack: [resource(INGRESS, 'triton', { spec: { rules: [{ host: 'triton.example.com' }] } })],
        says: `${INGRESS} "triton": spec.tls is not set; add the hosts and the Secret with their certificate.`,
      },
    },
  },
  'ingress-authenticated': {
    passes: {
      'with certificates': [ingress({ scheme: 'internet-facing', 'mutual-authentication': '[{}]' })],
      'in the network': [ingress({ scheme: 'internal' })],
    },
    fails: {
      'for the internet': {
        stack: [ingress({ scheme: 'internet-facing', 'auth-type': 'none' })],
        says:
          `${INGRESS} "triton": metadata.annotations.alb.ingress.kubernetes.io/scheme is "internet-facing"; ` +
          'set it to internal, or add alb.ingress.kubernetes.io/mutual-authentication.',
      },
    },
  },
  'service-not-public': {
    passes: {
      'in the cluster': [resource(SERVICE, 'triton', { spec: { type: 'ClusterIP' } })],
      'in the network': [
        resource(SERVICE, 'triton', {
          metadata: { annotations: { [SCHEME]: 'internal' } },
          spec: { type: 'LoadBalancer' },
        }),
      ],
      'annotations that are not known yet': [
        resource(SERVICE, 'triton', { metadata: withUnknown({}, 'annotations'), spec: { type: 'LoadBalancer' } }),
      ],
    },
    fails: {
      'for the internet': {
        stack: [resource(SERVICE, 'triton', { spec: { type: 'LoadBalancer' } })],
        says: `${SERVICE} "triton": metadata.annotations.${SCHEME} is not set; set it to internal.`,
      },
      'on every node': {
        stack: [resource(SERVICE, 'triton', { spec: { type: 'NodePort' } })],
        says: `${SERVICE} "triton": spec.type is "NodePort"; set it to ClusterIP.`,
      },
    },
  },
};
