import * as pulumi from '@pulumi/pulumi';
import { createIngress } from './ingress';
import { createLoadBalancer } from './load-balancer';
import type { Part } from './part';

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
