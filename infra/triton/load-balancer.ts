import { Service } from '@pulumi/kubernetes/core/v1';
import * as pulumi from '@pulumi/pulumi';
import { tagsAnnotation } from './load-balancer-tags';
import { labels, PORTS, selectorLabels } from './names';
import type { ComponentContext } from './names';
import { servicePorts } from './service';
import { AUTO_MODE_CLASS } from './settings';
import { rolloutTimeouts } from './timeouts';

/** The part of the status that is used. It is undefined in a preview and in rendered manifests. */
type LoadBalancerStatus = { loadBalancer?: { ingress?: { hostname?: string; ip?: string }[] } } | undefined;

const PREFIX = 'service.beta.kubernetes.io/aws-load-balancer';

/**
 * Creates a load balancer for HTTP and gRPC, without metrics, at an address in the VPC. It sends connections directly
 * to the pods and preserves the address of the client, which the NetworkPolicy checks.
 */
export function createLoadBalancer({
  settings,
  namespace,
  options,
}: ComponentContext): pulumi.Output<string | undefined> {
  const service = new Service(
    `${settings.name}-internal`,
    {
      metadata: {
        namespace,
        labels: labels(settings.name),
        annotations: {
          [`${PREFIX}-scheme`]: 'internal',
          [`${PREFIX}-nlb-target-type`]: 'ip',
          [`${PREFIX}-target-group-attributes`]: [
            'preserve_client_ip.enabled=true',
            // As long as a stopping pod keeps serving.
            `deregistration_delay.timeout_seconds=${settings.drainSeconds}`,
          ].join(','),
          [`${PREFIX}-healthcheck-protocol`]: 'HTTP',
          [`${PREFIX}-healthcheck-port`]: String(PORTS.http),
          [`${PREFIX}-healthcheck-path`]: '/v2/health/ready',
          [`${PREFIX}-healthcheck-interval`]: '5',
          // https://docs.aws.amazon.com/eks/latest/userguide/auto-configure-nlb.html (2026-11-27) lists it for Auto Mode.
          ...tagsAnnotation(`${PREFIX}-additional-resource-tags`, settings.loadBalancerTags),
        },
      },
      spec: {
        type: 'LoadBalancer',
        loadBalancerClass: settings.exposure.loadBalancerClass ?? AUTO_MODE_CLASS,
        loadBalancerSourceRanges: settings.exposure.clientCidrs,
        // The targets are pod addresses, not node ports.
        allocateLoadBalancerNodePorts: false,
        selector: selectorLabels(settings.name),
        ports: servicePorts('http', 'grpc'),
      },
    },
    {
      ...options,
      // Pulumi waits until the health checks of the pods succeed.
      customTimeouts: rolloutTimeouts(settings),
      // Kubernetes rejects another class. The name is generated, so the old load balancer serves until the new one does.
      replaceOnChanges: ['spec.loadBalancerClass'],
    },
  );
  return service.status.apply((status: unknown) => {
    const ingress = (status as LoadBalancerStatus)?.loadBalancer?.ingress?.[0];
    const host = ingress?.hostname ?? ingress?.ip;
    if (host !== undefined) return `http://${host}:${PORTS.http}`;
    // There is no address yet in a preview, and none at all in rendered manifests.
    return pulumi.runtime.isDryRun() ? (pulumi.unknown as string) : undefined;
  });
}
