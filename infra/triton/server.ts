import * as pulumi from '@pulumi/pulumi';
import { explained } from '../explained';
import type { TritonServerArgs } from './args';
import { createAutoscaling } from './autoscaling';
import { checkArguments } from './check';
import { createDeployment } from './deployment';
import { createDisruptionBudget } from './disruption-budget';
import { createExposure } from './exposure';
import { createMonitoring } from './monitoring';
import { podSelector } from './names';
import { createNamespace } from './namespace';
import { createNetworkPolicies } from './network-policy';
import { createPublisherAccess } from './publisher-access';
import { createSecrets } from './secrets';
import { createService, serviceUrl } from './service';
import { createServiceAccount } from './service-account';
import { withDefaults } from './settings';

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
