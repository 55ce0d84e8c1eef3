import * as pulumi from '@pulumi/pulumi';
import type { TritonServerArgs } from './args';

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

  constructor(name: string, args: TritonServerArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:TritonServer', name, {}, options);
    this.namespace = pulumi.output(args.namespace?.name ?? name);
    this.podSelector = pulumi.output('');
    this.serviceUrl = pulumi.output('');
    this.externalUrl = pulumi.output(undefined);
    this.registerOutputs({
      namespace: this.namespace,
      podSelector: this.podSelector,
      serviceUrl: this.serviceUrl,
      externalUrl: this.externalUrl,
    });
  }
}
