import type { Resource, Rule } from '../rule';
import type { Value } from '../value';
import { NODE_NAMESPACES } from './types';

const NAMESPACE = 'kubernetes:core/v1:Namespace';
const DEPLOYMENTS = ['kubernetes:apps/v1:Deployment', 'kubernetes:apps/v1:StatefulSet'];
const BUDGET = 'kubernetes:policy/v1:PodDisruptionBudget';
const NETWORK_POLICY = 'kubernetes:networking.k8s.io/v1:NetworkPolicy';
const INGRESS = 'kubernetes:networking.k8s.io/v1:Ingress';
const SERVICE = 'kubernetes:core/v1:Service';

const ALB = 'alb.ingress.kubernetes.io';
/** Annotations with which AWS's controllers authenticate clients. */
const AUTHENTICATIONS = ['mutual-authentication', 'jwt-validation', 'auth-type'] as const;

/** Annotations, by controller, that make a load balancer internal. */
const INTERNAL: readonly (readonly [annotation: string, value: string])[] = [
  ['service.beta.kubernetes.io/aws-load-balancer-scheme', 'internal'],
  ['service.beta.kubernetes.io/aws-load-balancer-internal', 'true'],
];

/** Whether `selector` matches `labels`. Unknown values count as a match. */
function selects(selector: Value, labels: Value): boolean {
  if (selector.isUnknown() || labels.isUnknown()) return true;
  const wanted = selector.at('matchLabels');
  return wanted
    .values()
    .every((value) => value.isUnknown() || labels.key(value.path.slice(wanted.path.length + 1)).mayBe(value.raw));
}

const podLabels = (workload: Resource): Value => workload.props.at('spec.template.metadata.labels');

const inSameNamespace = (one: Resource, other: Resource): boolean => {
  const [a, b] = [one, other].map(({ props }) => props.at('metadata.namespace')) as [Value, Value];
  return a.isUnknown() || b.isUnknown() || (a.raw ?? 'default') === (b.raw ?? 'default');
};

export const workloadRules: readonly Rule[] = [
  {
    name: 'namespace-restricted',
    description:
      'Every namespace enforces the Pod Security Standard "restricted", except the namespaces of node agents.',
    each: {
      types: [NAMESPACE],
      check: (resource, report) => {
        if (resource.props.at('metadata.name').is(...NODE_NAMESPACES)) return;
        const at = resource.props.at('metadata.labels').key('pod-security.kubernetes.io/enforce');
        if (!at.mayBe('restricted')) report({ resource, at, fix: 'set it to restricted' });
      },
    },
  },
  {
    name: 'workload-has-disruption-budget',
    description:
      'Every workload with several replicas has a PodDisruptionBudget, so that a drain does not stop all of them at once.',
    stack: (resources, report) => {
      for (const resource of resources.filter(({ type }) => DEPLOYMENTS.includes(type))) {
        const replicas = resource.props.at('spec.replicas');
        if (replicas.mayBe(0, 1)) continue;
        const budgets = resources.filter(
          (budget) =>
            budget.type === BUDGET &&
            inSameNamespace(budget, resource) &&
            selects(budget.props.at('spec.selector'), podLabels(resource)),
        );
        if (budgets.length > 0) continue;
        const problem = 'no PodDisruptionBudget selects its pods';
        report({ resource, at: replicas, problem, fix: 'add one with the labels of the pods' });
      }
    },
  },
  {
    name: 'workload-has-network-policy',
    description: 'Every workload has NetworkPolicies that restrict both incoming and outgoing connections.',
    stack: (resources, report) => {
      for (const resource of resources.filter(({ type }) => DEPLOYMENTS.includes(type))) {
        const policies = resources.filter(
          (policy) =>
            policy.type === NETWORK_POLICY &&
            inSameNamespace(policy, resource) &&
            selects(policy.props.at('spec.podSelector'), podLabels(resource)),
        );
        const missing = ['Ingress', 'Egress'].filter(
          (way) => !policies.some((policy) => policy.props.at('spec.policyTypes').mayInclude(way)),
        );
        if (missing.length === 0) continue;
        const problem = `no NetworkPolicy with policyTypes ${missing.join(' and ')} selects its pods`;
        report({ resource, at: podLabels(resource), problem, fix: 'add one with the labels of the pods' });
      }
    },
  },
  {
    name: 'ingress-tls',
    description: 'Every Ingress uses TLS, so that no request crosses a network in plain text.',
    each: {
      types: [INGRESS],
      check: (resource, report) => {
        const at = resource.props.at('spec.tls');
        const certificate = resource.props.at('metadata.annotations').key(`${ALB}/certificate-arn`);
        if (at.isUnknown() || at.items().length > 0 || !certificate.isMissing()) return;
        report({ resource, at, fix: 'add the hosts and the Secret with their certificate' });
      },
    },
  },
  {
    name: 'ingress-authenticated',
    description: 'Every Ingress with an address on the internet authenticates its clients.',
    each: {
      types: [INGRESS],
      check: (resource, report) => {
        const annotations = resource.props.at('metadata.annotations');
        const scheme = annotations.key(`${ALB}/scheme`);
        if (!scheme.is('internet-facing')) return;
        if (AUTHENTICATIONS.some((name) => !annotations.key(`${ALB}/${name}`).is(undefined, null, 'none'))) return;
        report({ resource, at: scheme, fix: `set it to internal, or add ${ALB}/mutual-authentication` });
      },
    },
  },
  {
    name: 'service-not-public',
    description: 'No Service has a public address or a node port.',
    each: {
      types: [SERVICE],
      check: (resource, report) => {
        const type = resource.props.at('spec.type');
        if (type.is('NodePort')) report({ resource, at: type, fix: 'set it to ClusterIP' });
        if (!type.is('LoadBalancer')) return;
        const annotations = resource.props.at('metadata.annotations');
        if (annotations.isUnknown()) return;
        if (INTERNAL.some(([name, value]) => annotations.key(name).mayBe(value))) return;
        const [name, value] = INTERNAL[0] as readonly [string, string];
        report({ resource, at: annotations.key(name), fix: `set it to ${value}` });
      },
    },
  },
];
