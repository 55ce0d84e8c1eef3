import { BlockList } from 'node:net';
import type { V1LabelSelector, V1NetworkPolicy, V1NetworkPolicyPeer } from '@kubernetes/client-node';

/** One end of a connection: a pod, or an address outside of the cluster. */
export type End =
  { labels: Record<string, string>; namespace: string; namespaceLabels: Record<string, string> } | { address: string };

interface Rule {
  peers: V1NetworkPolicyPeer[] | undefined;
  ports: { port?: unknown; protocol?: string }[] | undefined;
}

/**
 * Whether the policies of a namespace allow connections to a pod from `from`, or from the pod to `to`. Evaluates the
 * rules like a network plugin, because simulated nodes have none.
 */
export function mayConnect(
  policies: readonly V1NetworkPolicy[],
  pod: Record<string, string>,
  direction: { from: End } | { to: End },
  port: number,
  protocol: 'TCP' | 'UDP' = 'TCP',
): boolean {
  const type = 'from' in direction ? 'Ingress' : 'Egress';
  const other = 'from' in direction ? direction.from : direction.to;
  const applying = policies.filter(
    ({ spec }) => matches(spec?.podSelector ?? {}, pod) && (spec?.policyTypes ?? ['Ingress']).includes(type),
  );
  // A pod that no policy selects allows all connections.
  if (applying.length === 0) return true;
  return applying.some((policy) => {
    const own = policy.metadata?.namespace ?? '';
    return getRules(policy, type).some(
      ({ peers, ports }) =>
        (peers === undefined || peers.length === 0 || peers.some((peer) => isPeer(peer, other, own))) &&
        (ports === undefined ||
          ports.length === 0 ||
          ports.some((one) => (one.protocol ?? 'TCP') === protocol && (one.port === undefined || one.port === port))),
    );
  });
}

function getRules({ spec }: V1NetworkPolicy, type: 'Ingress' | 'Egress'): Rule[] {
  if (type === 'Egress') return (spec?.egress ?? []).map(({ to, ports }) => ({ peers: to, ports }));
  return (spec?.ingress ?? []).map(({ _from, ports }) => ({ peers: _from, ports }));
}

function isPeer(peer: V1NetworkPolicyPeer, other: End, ownNamespace: string): boolean {
  if (peer.ipBlock !== undefined) {
    return (
      'address' in other &&
      isWithin(peer.ipBlock.cidr, other.address) &&
      !(peer.ipBlock.except ?? []).some((cidr) => isWithin(cidr, other.address))
    );
  }
  if ('address' in other) return false;
  const inNamespace =
    peer.namespaceSelector === undefined
      ? other.namespace === ownNamespace
      : matches(peer.namespaceSelector, other.namespaceLabels);
  return inNamespace && matches(peer.podSelector ?? {}, other.labels);
}

function matches({ matchLabels, matchExpressions }: V1LabelSelector, labels: Record<string, string>): boolean {
  if (matchExpressions !== undefined) throw new Error('expressions in selectors are not judged here');
  return Object.entries(matchLabels ?? {}).every(([key, value]) => labels[key] === value);
}

function isWithin(cidr: string, address: string): boolean {
  const [network, bits] = cidr.split('/') as [string, string];
  const list = new BlockList();
  list.addSubnet(network, Number(bits));
  return list.check(address);
}
