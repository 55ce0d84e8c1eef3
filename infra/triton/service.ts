import { Service } from '@pulumi/kubernetes/core/v1';
import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { labels, PORTS, selectorLabels } from './names';
import type { Part } from './names';

type ServicePort = input.core.v1.ServicePort;

/** gRPC is HTTP/2 without TLS, which proxies have to be told. */
const APP_PROTOCOLS = { http: 'http', grpc: 'kubernetes.io/h2c', metrics: 'http' } as const;

/** Left out here, and part of a Service that was imported: without this Pulumi would replace it. */
export const SET_BY_KUBERNETES = ['spec.clusterIP', 'spec.clusterIPs'];

/** @param names which of the pods' ports */
export function servicePorts(...names: (keyof typeof PORTS)[]): ServicePort[] {
  return names.map((name) => ({ name, port: PORTS[name], targetPort: name, appProtocol: APP_PROTOCOLS[name] }));
}

/** Where clients inside of the cluster find the servers. Who may is up to the NetworkPolicy. */
export function createService({ settings, namespace, options }: Part): Service {
  const { name } = settings;
  return new Service(
    name,
    {
      // What is waited for is the Deployment, which knows how long pods may take.
      metadata: { name, namespace, labels: labels(name), annotations: { 'pulumi.com/skipAwait': 'true' } },
      spec: { type: 'ClusterIP', selector: selectorLabels(name), ports: servicePorts('http', 'grpc', 'metrics') },
    },
    { ...options, ignoreChanges: SET_BY_KUBERNETES },
  );
}

/** Its address inside of the cluster. */
export function serviceUrl({ settings, namespace }: Part): pulumi.Output<string> {
  return pulumi.interpolate`http://${settings.name}.${namespace}.svc:${PORTS.http}`;
}
