import { Namespace, ServiceAccount } from '@pulumi/kubernetes/core/v1';
import { PodDisruptionBudget } from '@pulumi/kubernetes/policy/v1';
import * as pulumi from '@pulumi/pulumi';
import { explained } from '../explained';
import type { TritonServerArgs } from './args';
import { createAutoscaling } from './autoscaling';
import { checkArguments } from './check';
import { createDeployment } from './deployment';
import { createIngress } from './ingress';
import { createLoadBalancer } from './load-balancer';
import { createMonitoring } from './monitoring';
import { type Part, labels, podSelector, selectorLabels } from './names';
import { createNetworkPolicies } from './network-policy';
import { createPublisherAccess } from './publisher-access';
import { createSecrets } from './secrets';
import { createService, serviceUrl } from './service';
import { type TritonSettings, withDefaults } from './settings';

export type * from './args';

/** A Triton Deployment that serves a model repository in S3, and everything around it in its namespace. */
export class TritonServer extends pulumi.ComponentResource {
  /** The namespace of the pods. */
  readonly namespace: pulumi.Output<string>;
  /** Label selector of the pods, as kubectl and the publisher take it. */
  readonly podSelector: pulumi.Output<string>;
  /** Where clients inside of the cluster find the HTTP API. */
  readonly serviceUrl: pulumi.Output<string>;
  /** Where clients outside of the cluster find it; undefined for exposure `cluster`. */
  readonly externalUrl: pulumi.Output<string | undefined>;
  /** What the model control API of the servers asks for: secret. */
  readonly modelControlKey: pulumi.Output<string>;

  /**
   * @param name of the Deployment, its Service and whatever else is made; also of the namespace where none is given
   * @throws RunError that lists every argument that will not do
   */
  constructor(name: string, args: TritonServerArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:TritonServer', name, {}, options);
    const settings = explained(() => checkArguments(withDefaults(name, args)));
    const parent = { parent: this };
    this.namespace = createNamespace(settings, parent);
    const part = { settings, namespace: this.namespace, options: parent };

    createNetworkPolicies(part);
    createPublisherAccess(part);
    const serviceAccount = createServiceAccount(part);
    const secrets = createSecrets(part);
    const deployment = createDeployment(part, { serviceAccount, secrets: secrets.names });
    this.modelControlKey = secrets.modelControlKey;
    createDisruptionBudget(part);
    createService(part);
    createAutoscaling(part, deployment.metadata.name);
    createMonitoring(part);

    this.podSelector = pulumi.output(podSelector(name));
    this.serviceUrl = serviceUrl(part);
    this.externalUrl = createExposure(part);
    this.registerOutputs({
      namespace: this.namespace,
      podSelector: this.podSelector,
      serviceUrl: this.serviceUrl,
      externalUrl: this.externalUrl,
      modelControlKey: this.modelControlKey,
    });
  }
}

/**
 * The identity of the pods. Its own token is not mounted: Triton does not talk to Kubernetes. The token that AWS takes
 * for the role is another one, which EKS mounts because of the annotation.
 */
export function createServiceAccount({ settings, namespace, options }: Part): pulumi.Output<string> {
  const { name, credentials } = settings;
  const role =
    credentials.kind === 'role' ? { annotations: { 'eks.amazonaws.com/role-arn': credentials.roleArn } } : {};
  return new ServiceAccount(
    name,
    { metadata: { name, namespace, labels: labels(name), ...role }, automountServiceAccountToken: false },
    options,
  ).metadata.name;
}

/** PodSecurity: pods that ask for more than the strictest profile allows are refused, and whoever applies them is told. */
const RESTRICTED = Object.fromEntries(
  ['enforce', 'audit', 'warn'].flatMap((mode) => [
    [`pod-security.kubernetes.io/${mode}`, 'restricted'],
    [`pod-security.kubernetes.io/${mode}-version`, 'latest'],
  ]),
);

/** The namespace of the pods; its name comes when it is there. */
export function createNamespace(
  settings: TritonSettings,
  options: pulumi.CustomResourceOptions,
): pulumi.Output<string> {
  const { name, namespace } = settings;
  if (!namespace.create) return pulumi.output(namespace.name);
  const metadata = { name: namespace.name, labels: { ...labels(name), ...RESTRICTED } };
  return new Namespace(name, { metadata }, options).metadata.name;
}

/**
 * How many pods may be missing when nodes are drained, replaced or consolidated. A number that may be missing, not one
 * that has to be there: a single replica would otherwise keep its node from ever being replaced.
 */
export function createDisruptionBudget({ settings, namespace, options }: Part): void {
  const { name, rollout } = settings;
  new PodDisruptionBudget(
    name,
    {
      metadata: { name, namespace, labels: labels(name) },
      spec: {
        maxUnavailable: rollout.maxUnavailable,
        selector: { matchLabels: selectorLabels(name) },
        // A pod that does not serve protects nobody.
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
      },
    },
    options,
  );
}

/** Makes what leads clients outside of the cluster to the servers; yields where they find them. */
export function createExposure(part: Part): pulumi.Output<string | undefined> {
  const { exposure } = part.settings;
  switch (exposure.kind) {
    case 'cluster':
      return pulumi.output(undefined);
    case 'internal-load-balancer':
      return createLoadBalancer(part, exposure);
    case 'ingress':
      return createIngress(part, exposure);
    default:
      return exposure satisfies never;
  }
}
