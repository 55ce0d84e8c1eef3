import { Namespace, ServiceAccount } from '@pulumi/kubernetes/core/v1';
import { PodDisruptionBudget } from '@pulumi/kubernetes/policy/v1';
import * as pulumi from '@pulumi/pulumi';
import { toRunError } from '../run-error';
import { createAgentProgram } from './agent/container';
import type { TritonServerArgs } from './args';
import { createAutoscaling } from './autoscaling';
import { builder } from './builder';
import { createDeployment } from './deployment';
import { createIngress } from './ingress';
import { createLoadBalancer } from './load-balancer';
import { createMonitoring } from './monitoring/monitoring';
import { type ComponentContext, labels, podSelector, selectorLabels } from './names';
import { createNetworkPolicies } from './network-policy';
import { createPublisherAccess } from './publisher-access';
import { readArguments } from './rules';
import { createSecrets } from './secrets';
import { createServices, serviceUrl } from './service';
import { AUTO_MODE_CLASS, type ServerSettings } from './settings';
import { getEvictable } from './timeouts';

export type * from './args';

/** How the agents authenticate to the bucket. */
export type RepositoryCredentials = TritonServerArgs['credentials'];

/** A Triton Deployment that serves a model repository in S3, with all its objects in the namespace. */
export class TritonServer extends pulumi.ComponentResource {
  readonly namespace: pulumi.Output<string>;
  /** Label selector of the pods, in the format of kubectl. */
  readonly podSelector: pulumi.Output<string>;
  /** Address of the HTTP API for clients in the cluster. */
  readonly serviceUrl: pulumi.Output<string>;
  /** Address of the HTTP API for clients outside the cluster; undefined for exposure `cluster`. */
  readonly externalUrl: pulumi.Output<string | undefined>;
  /** How `npm run build -- --stack` compiles models for the replicas, as JSON; empty if their GPUs are not known. */
  readonly builder: pulumi.Output<string>;

  /**
   * @param name of the Deployment, its Service and all other objects; also the default for the namespace
   * @throws RunError with all invalid arguments
   */
  constructor(name: string, args: TritonServerArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:index:TritonServer', name, {}, options);
    const settings = toRunError(() => readArguments(name, args));
    const parent = { parent: this };
    this.namespace = createNamespace(settings, parent);
    const part = { settings, namespace: this.namespace, options: parent };

    createNetworkPolicies(part);
    const serviceAccount = createServiceAccount(part);
    const secrets = createSecrets(part);
    createPublisherAccess(part);
    const agentProgram = createAgentProgram(part);
    const deployment = createDeployment(part, { serviceAccount, secrets, agentProgram });
    createDisruptionBudget(part);
    createServices(part);
    createAutoscaling(part, deployment.metadata.name);
    createMonitoring(part);

    this.podSelector = pulumi.output(podSelector(name));
    this.serviceUrl = serviceUrl(part);
    this.externalUrl = EXPOSE[settings.exposure.kind](part);
    this.builder = pulumi.output(builder(settings) ?? '');
    this.registerOutputs({
      namespace: this.namespace,
      podSelector: this.podSelector,
      serviceUrl: this.serviceUrl,
      externalUrl: this.externalUrl,
      builder: this.builder,
    });
  }
}

/**
 * The service account of the pods. Their Kubernetes token is not mounted, because they do not use the Kubernetes API. Without
 * EKS's annotation for the AWS role, with which all containers would get a token for it: only the agent's has one.
 */
function createServiceAccount({ settings: { name }, namespace, options }: ComponentContext): pulumi.Output<string> {
  const metadata = { name, namespace, labels: labels(name) };
  return new ServiceAccount(name, { metadata, automountServiceAccountToken: false }, options).metadata.name;
}

/**
 * Pod Security labels: pods that violate the strictest profile are rejected, with a message to the client that applies
 * them.
 */
const RESTRICTED = Object.fromEntries(
  ['enforce', 'audit', 'warn'].flatMap((mode) => [
    [`pod-security.kubernetes.io/${mode}`, 'restricted'],
    [`pod-security.kubernetes.io/${mode}-version`, 'latest'],
  ]),
);

/**
 * The label with which the controller of the load balancer adds a readiness gate to new pods: a pod counts as available
 * when the load balancer sends requests to it, so that an update does not stop the next pod before. Auto Mode has a label
 * of its own, as its webhook eks-load-balancing-webhook selects (read 2026-11-25 in namespaces of public repositories); the
 * other is https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/deploy/pod_readiness_gate.
 */
function readinessGate({ exposure, createIngressClass }: ServerSettings): Record<string, string> {
  const { kind, certificateArn, loadBalancerClass = AUTO_MODE_CLASS } = exposure;
  // An ingress without a certificate of AWS may be one of any controller.
  if (kind === 'cluster' || (kind === 'ingress' && !createIngressClass && certificateArn === undefined)) return {};
  const isAutoMode = kind === 'ingress' ? createIngressClass : loadBalancerClass === AUTO_MODE_CLASS;
  return { [`${isAutoMode ? 'eks.amazonaws.com' : 'elbv2.k8s.aws'}/pod-readiness-gate-inject`]: 'enabled' };
}

function createNamespace(settings: ServerSettings, options: pulumi.CustomResourceOptions): pulumi.Output<string> {
  const { name, namespace } = settings;
  if (!namespace.create) return pulumi.output(namespace.name);
  const metadata = {
    name: namespace.name,
    labels: { ...labels(name), ...RESTRICTED, ...readinessGate(settings) },
  };
  // Protection ends when a program only reads the namespace, or reads another one: what others have in it then stays.
  const { protect } = settings;
  return new Namespace(name, { metadata }, { ...options, protect, retainOnDelete: protect }).metadata.name;
}

/**
 * Limits how many pods are unavailable while nodes are drained, replaced or consolidated. Sets maxUnavailable instead
 * of minAvailable, because a single replica would otherwise block the replacement of its node.
 */
function createDisruptionBudget({ settings, namespace, options }: ComponentContext): void {
  const { name } = settings;
  new PodDisruptionBudget(
    name,
    {
      metadata: { name, namespace, labels: labels(name) },
      spec: {
        maxUnavailable: getEvictable(settings),
        selector: { matchLabels: selectorLabels(name) },
        // An unhealthy pod serves no requests, so it need not be protected.
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
      },
    },
    options,
  );
}

/** Creates the load balancer or Ingress for clients outside the cluster, and returns its address. */
const EXPOSE = {
  cluster: () => pulumi.output(undefined),
  'internal-load-balancer': createLoadBalancer,
  ingress: createIngress,
};
