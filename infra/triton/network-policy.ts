import { NetworkPolicy } from '@pulumi/kubernetes/networking/v1';
import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { containsRange } from '../network/cidr';
import { AGENT_PORT, labels, NAMESPACE_LABEL, PORTS, selectorLabels } from './names';
import type { ComponentContext } from './names';
import { DEFAULT_MONITORING_NAMESPACE, type ServerSettings } from './settings';
import { serviceNamespace } from './tracing';

type IngressRule = input.networking.v1.NetworkPolicyIngressRule;
type EgressRule = input.networking.v1.NetworkPolicyEgressRule;
type Peer = input.networking.v1.NetworkPolicyPeer;
type Port = input.networking.v1.NetworkPolicyPort;

/** Addresses of the metadata service, which provides the credentials of the node. */
const LINK_LOCAL = '169.254.0.0/16';

/** Default destination of the pods. */
const ANYWHERE = '0.0.0.0/0';

const tcp = (...ports: number[]): Port[] => ports.map((port) => ({ protocol: 'TCP', port }));
const namespaceNamed = (name: string): Peer => ({ namespaceSelector: { matchLabels: { [NAMESPACE_LABEL]: name } } });
const block = (cidr: pulumi.Input<string>): Peer => ({ ipBlock: { cidr } });

/** Restricts connections from and to the pods. Probes and port-forwards come from the node, which is always allowed. */
export function createNetworkPolicies({ settings, namespace, options }: ComponentContext): void {
  const { name } = settings;
  const metadata = { namespace, labels: labels(name) };
  new NetworkPolicy(
    name,
    {
      metadata: { ...metadata, name },
      spec: {
        podSelector: { matchLabels: selectorLabels(name) },
        policyTypes: ['Ingress', 'Egress'],
        ingress: ingressRules(settings),
        egress: egressRules(settings),
      },
    },
    options,
  );
  // Other pods in a namespace that we created need policies of their own. Retained, because a namespace that another
  // team takes over ("namespace.create: false") still contains the pods; otherwise the namespace is deleted too.
  if (!settings.namespace.create) return;
  new NetworkPolicy(
    `${name}-default-deny`,
    {
      metadata: { ...metadata, name: `${name}-default-deny` },
      spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
    },
    { ...options, retainOnDelete: true },
  );
}

function ingressRules(settings: ServerSettings): IngressRule[] {
  const { clientNamespaces, monitoring } = settings;
  const ownNamespace: Peer = { podSelector: {} };
  return [
    { from: [ownNamespace, ...clientNamespaces.map(namespaceNamed)], ports: tcp(PORTS.http, PORTS.grpc) },
    ...outsideRules(settings.exposure),
    {
      from: [namespaceNamed(monitoring?.namespace ?? DEFAULT_MONITORING_NAMESPACE)],
      ports: tcp(PORTS.metrics, AGENT_PORT.containerPort),
    },
  ];
}

function outsideRules({ kind, clientCidrs, controllerCidrs }: ServerSettings['exposure']): IngressRule[] {
  if (kind === 'cluster') return [];
  const controller = { from: blocks(controllerCidrs), ports: tcp(PORTS.http) };
  if (kind === 'ingress') return [controller];
  return [{ from: clientCidrs.map(block), ports: tcp(PORTS.http, PORTS.grpc) }, controller];
}

function blocks(cidrs: pulumi.Input<pulumi.Input<string>[]>): pulumi.Output<Peer[]> {
  return pulumi.output(cidrs).apply((all) => all.map(block));
}

function egressRules(settings: ServerSettings): EgressRule[] {
  const { egressCidrs, endpointUrl, tracing } = settings;
  const destinations = (egressCidrs.length === 0 ? [ANYWHERE] : egressCidrs).map(destination);
  return [
    // DNS is allowed to any address, because EKS Auto Mode resolves names on the node, not in pods that a selector
    // could match.
    {
      ports: [
        { protocol: 'UDP', port: 53 },
        { protocol: 'TCP', port: 53 },
      ],
    },
    { to: destinations, ports: [{ protocol: 'TCP', port: pulumi.output(endpointUrl).apply(getPort) }] },
    ...(tracing === undefined ? [] : [collectorRule(tracing.otlpEndpoint, destinations)]),
  ];
}

/** A range of addresses selects no pods in some network plugins, so a Service is allowed by its namespace. */
function collectorRule(url: string, destinations: Peer[]): EgressRule {
  const namespace = serviceNamespace(url);
  return { to: namespace === undefined ? destinations : [namespaceNamed(namespace)], ports: tcp(getPort(url)) };
}

function destination(cidr: string): Peer {
  return { ipBlock: containsRange(cidr, LINK_LOCAL) ? { cidr, except: [LINK_LOCAL] } : { cidr } };
}

/** The port of an address. Default: 443, because without an address AWS is used. */
function getPort(url: string | undefined): number {
  if (url === undefined) return 443;
  const { port, protocol } = new URL(url);
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}
