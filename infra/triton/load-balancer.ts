import { Service } from '@pulumi/kubernetes/core/v1';
import type * as pulumi from '@pulumi/pulumi';
import type { Exposure } from './args';
import { DEFAULTS } from './limits';
import { labels, PORTS, selectorLabels } from './names';
import type { Part } from './names';
import { servicePorts, SET_BY_KUBERNETES } from './service';
import { rolloutTimeouts } from './timing';

type LoadBalancer = Extract<Exposure, { kind: 'internal-load-balancer' }>;

/** What of its status matters; a preview has none, and manifests that are only written do not either. */
type LoadBalancerStatus = { loadBalancer?: { ingress?: { hostname?: string; ip?: string }[] } } | undefined;

const PREFIX = 'service.beta.kubernetes.io/aws-load-balancer';

/**
 * HTTP and gRPC at an address inside of the VPC; metrics are not among them. Connections go straight to the pods and
 * keep the client's address, by which the NetworkPolicy decides.
 */
export function createLoadBalancer(
  { settings, namespace, options }: Part,
  exposure: LoadBalancer,
): pulumi.Output<string> {
  const name = `${settings.name}-internal`;
  const service = new Service(
    name,
    {
      metadata: {
        name,
        namespace,
        labels: labels(settings.name),
        annotations: {
          [`${PREFIX}-scheme`]: 'internal',
          [`${PREFIX}-nlb-target-type`]: 'ip',
          [`${PREFIX}-target-group-attributes`]: [
            'preserve_client_ip.enabled=true',
            // As long as a pod that ends goes on serving.
            `deregistration_delay.timeout_seconds=${settings.shutdown.drainSeconds}`,
          ].join(','),
          [`${PREFIX}-healthcheck-protocol`]: 'HTTP',
          [`${PREFIX}-healthcheck-port`]: String(PORTS.http),
          [`${PREFIX}-healthcheck-path`]: '/v2/health/ready',
          [`${PREFIX}-healthcheck-interval`]: '5',
        },
      },
      spec: {
        type: 'LoadBalancer',
        loadBalancerClass: exposure.loadBalancerClass ?? DEFAULTS.loadBalancerClass,
        loadBalancerSourceRanges: exposure.clientCidrs,
        // Targets are the pods themselves.
        allocateLoadBalancerNodePorts: false,
        selector: selectorLabels(settings.name),
        ports: servicePorts('http', 'grpc'),
      },
    },
    // Its health checks wait for the pods.
    { ...options, customTimeouts: rolloutTimeouts(settings), ignoreChanges: SET_BY_KUBERNETES },
  );
  return service.status.apply((status: unknown) => {
    const ingress = (status as LoadBalancerStatus)?.loadBalancer?.ingress?.[0];
    return `http://${ingress?.hostname ?? ingress?.ip ?? 'unknown'}:${PORTS.http}`;
  });
}
