import { Service } from '@pulumi/kubernetes/core/v1';
import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { labels, PORTS, selectorLabels } from './names';
import type { ComponentContext } from './names';

type ServicePort = input.core.v1.ServicePort;

/** Tells proxies that gRPC is HTTP/2 without TLS. */
const APP_PROTOCOLS = { http: 'http', grpc: 'kubernetes.io/h2c', metrics: 'http' } as const;

export function servicePorts(...names: (keyof typeof PORTS)[]): ServicePort[] {
  return names.map((name) => ({ name, port: PORTS[name], targetPort: name, appProtocol: APP_PROTOCOLS[name] }));
}

/**
 * Creates the Services for clients in the cluster; the NetworkPolicy decides which clients may connect. The headless one is for
 * gRPC clients that balance requests themselves: its name resolves to the addresses of all ready pods
 * (https://github.com/kubernetes/dns/blob/master/docs/specification.md, 2026-11-27). It has no port of metrics, so that the
 * ServiceMonitor, which selects both Services, scrapes each pod once.
 */
export function createServices({ settings, namespace, options }: ComponentContext): void {
  const create = (name: string, ports: ServicePort[], clusterIP?: string): void => {
    // Pulumi waits for the Deployment instead, whose timeouts consider how long pods take.
    const annotations = { 'pulumi.com/skipAwait': 'true' };
    const metadata = { name, namespace, labels: labels(settings.name), annotations };
    const selector = selectorLabels(settings.name);
    new Service(name, { metadata, spec: { type: 'ClusterIP', clusterIP, selector, ports } }, options);
  };
  create(settings.name, servicePorts('http', 'grpc', 'metrics'));
  create(`${settings.name}-headless`, servicePorts('grpc'), 'None');
}

export function serviceUrl({ settings, namespace }: ComponentContext): pulumi.Output<string> {
  return pulumi.interpolate`http://${settings.name}.${namespace}.svc:${PORTS.http}`;
}
