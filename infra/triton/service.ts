import { Service } from '@pulumi/kubernetes/core/v1';
import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { labels, PORTS, selectorLabels } from './names';
import type { ComponentContext } from './names';

type ServicePort = input.core.v1.ServicePort;

/** Tells proxies that gRPC is HTTP/2 without TLS. */
const APP_PROTOCOLS = { http: 'http', grpc: 'kubernetes.io/h2c', metrics: 'http' } as const;

/** @param names of the ports */
export function servicePorts(...names: (keyof typeof PORTS)[]): ServicePort[] {
  return names.map((name) => ({ name, port: PORTS[name], targetPort: name, appProtocol: APP_PROTOCOLS[name] }));
}

/** The Service for clients in the cluster. The NetworkPolicy decides which clients may connect. */
export function createService({ settings, namespace, options }: ComponentContext): Service {
  const { name } = settings;
  return new Service(
    name,
    {
      // Pulumi waits for the Deployment instead, whose timeouts consider how long pods take.
      metadata: { name, namespace, labels: labels(name), annotations: { 'pulumi.com/skipAwait': 'true' } },
      spec: { type: 'ClusterIP', selector: selectorLabels(name), ports: servicePorts('http', 'grpc', 'metrics') },
    },
    options,
  );
}

/**
 * The Service for gRPC clients that balance requests themselves: its name resolves to the addresses of all ready pods
 * (https://github.com/kubernetes/dns/blob/master/docs/specification.md, 2026-11-27). Without the port of metrics, so that
 * the ServiceMonitor, which selects both Services, scrapes each pod once.
 */
export function createHeadlessService({ settings, namespace, options }: ComponentContext): Service {
  const name = `${settings.name}-headless`;
  return new Service(
    name,
    {
      metadata: {
        name,
        namespace,
        labels: labels(settings.name),
        annotations: { 'pulumi.com/skipAwait': 'true' },
      },
      spec: {
        type: 'ClusterIP',
        clusterIP: 'None',
        selector: selectorLabels(settings.name),
        ports: servicePorts('grpc'),
      },
    },
    options,
  );
}

/** Address of the Service in the cluster. */
export function serviceUrl({ settings, namespace }: ComponentContext): pulumi.Output<string> {
  return pulumi.interpolate`http://${settings.name}.${namespace}.svc:${PORTS.http}`;
}
