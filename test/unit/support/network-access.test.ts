import type { V1NetworkPolicy } from '@kubernetes/client-node';
import { mayConnect, type End } from '../../support/network-access';

/** What the end-to-end tests judge network policies by: the examples of Kubernetes' documentation. */
const inNamespace = (namespace: string, labels: Record<string, string> = {}): End => ({
  labels,
  namespace,
  namespaceLabels: { 'kubernetes.io/metadata.name': namespace },
});
const policy = (spec: object): V1NetworkPolicy => ({ metadata: { namespace: 'own' }, spec });
const SERVER = { app: 'server' };
const SELECTED = { podSelector: { matchLabels: SERVER } };

test('a pod that no policy selects is open', () => {
  const other = policy({ podSelector: { matchLabels: { app: 'other' } }, policyTypes: ['Ingress', 'Egress'] });
  expect(mayConnect([other], SERVER, { from: inNamespace('any') }, 80)).toBe(true);
  expect(mayConnect([other], SERVER, { to: { address: '192.0.2.1' } }, 80)).toBe(true);
});

test('a selected pod is closed to peers that no rule names, in the directions of the policy', () => {
  const closed = policy({ podSelector: {}, policyTypes: ['Ingress'] });
  expect(mayConnect([closed], SERVER, { from: inNamespace('own') }, 80)).toBe(false);
  expect(mayConnect([closed], SERVER, { to: { address: '192.0.2.1' } }, 80)).toBe(true);
});

test('a peer without a namespace selector is in the own namespace; one with both has to match both', () => {
  const rules = [
    { _from: [{ podSelector: { matchLabels: { role: 'client' } } }] },
    {
      _from: [
        {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } },
          podSelector: { matchLabels: { app: 'prometheus' } },
        },
      ],
    },
  ];
  const policies = [policy({ ...SELECTED, ingress: rules })];
  const from = (end: End): boolean => mayConnect(policies, SERVER, { from: end }, 80);
  expect(from(inNamespace('own', { role: 'client' }))).toBe(true);
  expect(from(inNamespace('other', { role: 'client' }))).toBe(false);
  expect(from(inNamespace('monitoring', { app: 'prometheus' }))).toBe(true);
  expect(from(inNamespace('monitoring', { app: 'grafana' }))).toBe(false);
  expect(from({ address: '10.0.0.1' })).toBe(false);
});

test('ports and protocols have to fit, and the rules of several policies add up', () => {
  const ports = (port: number, protocol?: string): object => ({ ports: [{ port, protocol }] });
  const policies = [
    policy({ ...SELECTED, ingress: [ports(8000)] }),
    policy({ ...SELECTED, ingress: [ports(53, 'UDP')] }),
  ];
  const from = (port: number, protocol?: 'UDP'): boolean =>
    mayConnect(policies, SERVER, { from: inNamespace('any') }, port, protocol);
  expect([from(8000), from(8001), from(53), from(53, 'UDP'), from(8000, 'UDP')]).toEqual([
    true,
    false,
    false,
    true,
    false,
  ]);
});

test('addresses are judged by blocks and their exceptions', () => {
  const block = { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } };
  const policies = [policy({ ...SELECTED, policyTypes: ['Egress'], egress: [{ to: [block] }] })];
  const to = (address: string): boolean => mayConnect(policies, SERVER, { to: { address } }, 443);
  expect([to('10.2.0.1'), to('10.1.0.1'), to('11.0.0.1')]).toEqual([true, false, false]);
  expect(mayConnect(policies, SERVER, { to: inNamespace('own') }, 443)).toBe(false);
});
