import { join } from 'node:path';
import type { V1Pod, V1LabelSelector, V1NetworkPolicy, V1NetworkPolicyPeer, V1PodSpec } from '@kubernetes/client-node';
import { paths } from '../../src/core/paths';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { inFolder, MOVE_TO_PACKAGE, runBlock } from '../support/doc-commands';
import { Scratch } from '../support/temp-dir';
import { type TestStack, DEPLOYMENT, localStack, NAMESPACE, whyNoEngines } from '../support/stack';
import { BlockList } from 'node:net';

/** One end of a connection: a pod, or an address outside of the cluster. */
type End =
  { labels: Record<string, string>; namespace: string; namespaceLabels: Record<string, string> } | { address: string };

/**
 * Whether the policies of a namespace allow connections to a pod from `from`, or from the pod to `to`. Evaluates the
 * rules like a network plugin, because simulated nodes have none.
 */
function mayConnect(
  policies: readonly V1NetworkPolicy[],
  pod: Record<string, string>,
  direction: { from: End } | { to: End },
  port: number,
  protocol: 'TCP' | 'UDP' = 'TCP',
): boolean {
  const [type, other] =
    'from' in direction ? (['Ingress', direction.from] as const) : (['Egress', direction.to] as const);
  const applying = policies.filter(
    ({ spec }) => matches(spec?.podSelector ?? {}, pod) && (spec?.policyTypes ?? ['Ingress']).includes(type),
  );
  // A pod that no policy selects allows all connections.
  if (applying.length === 0) return true;
  return applying.some(({ metadata, spec }) => {
    const rules =
      type === 'Ingress'
        ? (spec?.ingress ?? []).map(({ _from: peers = [], ports = [] }) => ({ peers, ports }))
        : (spec?.egress ?? []).map(({ to: peers = [], ports = [] }) => ({ peers, ports }));
    return rules.some(
      ({ peers, ports }) =>
        (peers.length === 0 || peers.some((peer) => isPeer(peer, other, metadata?.namespace ?? ''))) &&
        (ports.length === 0 ||
          ports.some((one) => (one.protocol ?? 'TCP') === protocol && (one.port === undefined || one.port === port))),
    );
  });
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

const BUILD_MS = 60 * 60_000;
const GPU_NODES = ['gpu-0', 'gpu-1', 'gpu-2'];
const PUBLISHER = 'publisher';

describeUnless(whyNoEngines(), 'the local stack on a real control plane', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let stack: TestStack;
  let selector: string;

  beforeAll(async () => {
    plane = await ControlPlane.start(scratch, { groups: { [PUBLISHER]: 'triton-publishers' } });
    for (const [index, name] of GPU_NODES.entries()) {
      await plane.addGpuNode(name, { zone: `us-east-1${'abc'[index]}` });
    }
    stack = await localStack(scratch, plane);
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  const pods = (): Promise<V1Pod[]> => plane.pods(NAMESPACE, selector);

  test('pulumi up creates the stack and waits until the replicas are ready', async () => {
    await stack.up();
    const outputs = await stack.outputs();
    expect(outputs).toMatchObject({
      modelRepository: 's3://model-repository/models',
      endpointUrl: 'http://127.0.0.1:9',
      namespace: NAMESPACE,
    });
    selector = outputs['podSelector'] as string;
    expect(await plane.readyPods(NAMESPACE, selector)).toHaveLength(2);
  });

  test('a second up changes nothing, and refresh finds no drift', async () => {
    await stack.up('--expect-no-changes');
    await stack.pulumi('refresh', '--stack', 'local', '--yes', '--skip-preview', '--expect-no-changes');
  });

  test('the stack has no AWS resources', async () => {
    const types = (await stack.resources()).map(({ type }) => type);
    expect(types.filter((type) => type.startsWith('aws:'))).toEqual([]);
    expect(types.some((type) => type === 'kubernetes:apps/v1:Deployment')).toBe(true);
  });

  test('replicas run on GPU nodes in different zones', async () => {
    const nodes = (await pods()).map(({ spec }) => spec?.nodeName);
    expect(new Set(nodes).size).toBe(2);
    for (const node of nodes) expect(GPU_NODES).toContain(node);
  });

  test('the namespace admits the pod of the Deployment, and enforces the profile "restricted" on others', async () => {
    const { apps, core } = plane.client;
    const { spec } = await apps.readNamespacedDeployment({ name: DEPLOYMENT, namespace: NAMESPACE });
    const admit = (pod: V1PodSpec): Promise<unknown> =>
      core.createNamespacedPod({
        namespace: NAMESPACE,
        body: { metadata: { name: 'other', labels: spec?.template.metadata?.labels ?? {} }, spec: pod },
        dryRun: 'All',
      });
    const valid = spec?.template.spec as V1PodSpec;
    await admit(valid);
    const violations: ((pod: V1PodSpec) => void)[] = [
      ({ containers }) => containers.forEach((one) => (one.securityContext = {})),
      ({ initContainers = [] }) => initContainers.forEach((one) => (one.securityContext = {})),
      (pod) => (pod.securityContext = {}),
      (pod) => (pod.hostNetwork = true),
    ];
    for (const violate of violations) {
      const pod = structuredClone(valid);
      violate(pod);
      await expect(admit(pod)).rejects.toMatchObject({
        body: expect.stringMatching(/violates PodSecurity .*restricted:latest/) as string,
      });
    }
  });

  test('network policies allow exactly the intended connections', async () => {
    const { items } = await plane.client.networking.listNamespacedNetworkPolicy({ namespace: NAMESPACE });
    const server = (await pods())[0]?.metadata?.labels ?? {};
    const inNamespace = (namespace: string, labels = {}): End => ({
      labels,
      namespace,
      namespaceLabels: { 'kubernetes.io/metadata.name': namespace },
    });
    const from = (end: End, port: number): boolean => mayConnect(items, server, { from: end }, port);
    const to = (end: End, port: number, protocol: 'TCP' | 'UDP' = 'TCP'): boolean =>
      mayConnect(items, server, { to: end }, port, protocol);
    const [own, monitoring, other] = [inNamespace(NAMESPACE), inNamespace('monitoring'), inNamespace('other')];

    expect([8000, 8001, 8002].map((port) => from(own, port))).toEqual([true, true, false]);
    expect([8000, 8001, 8002].map((port) => from(monitoring, port))).toEqual([false, false, true]);
    expect([8000, 8001, 8002].map((port) => from(other, port))).toEqual([false, false, false]);
    expect([8000, 8001, 8002].map((port) => from({ address: '10.1.2.3' }, port))).toEqual([false, false, false]);
    // DNS and the port of the S3 endpoint are allowed; the credentials of the machine never are.
    expect([to(inNamespace('kube-system'), 53, 'UDP'), to({ address: '192.0.2.1' }, 53, 'UDP')]).toEqual([true, true]);
    expect([to({ address: '192.0.2.1' }, 9), to({ address: '192.0.2.1' }, 80), to(own, 8000)]).toEqual([
      true,
      false,
      false,
    ]);
    expect(to({ address: '169.254.169.254' }, 9)).toBe(false);
    // Other pods in the namespace have no connections in or out.
    const stranger = { app: 'stranger' };
    expect(mayConnect(items, stranger, { from: own }, 8000)).toBe(false);
    expect(mayConnect(items, stranger, { to: { address: '192.0.2.1' } }, 443)).toBe(false);
  });

  describe('RBAC', () => {
    const pod = ['pods', 'pods/portforward', 'pods/exec', 'pods/log'];
    const everything = [...pod, 'secrets', 'configmaps', 'deployments', 'services', 'roles'];
    const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];
    const granted = async (user: string, groups: string[], namespace = NAMESPACE): Promise<string[]> => {
      const found: string[] = [];
      for (const [of, verb] of everything.flatMap((resource) => verbs.map((verb) => [resource, verb] as const))) {
        const [resource = '', subresource] = of.split('/');
        const resourceAttributes = { verb, resource, namespace, ...(subresource !== undefined && { subresource }) };
        const body = { spec: { user, groups, resourceAttributes } };
        const { status } = await plane.client.authorization.createSubjectAccessReview({ body });
        if (status?.allowed === true) found.push(`${verb} ${of}`);
      }
      return found;
    };

    test('the service account of Triton has no permissions, and pods do not get its token', async () => {
      const { spec } = (await pods())[0] as V1Pod;
      const account = spec?.serviceAccountName ?? 'default';
      expect(account).not.toBe('default');
      const user = `system:serviceaccount:${NAMESPACE}:${account}`;
      expect(await granted(user, ['system:serviceaccounts', 'system:authenticated'])).toEqual([]);
      const mounts = spec?.containers.flatMap(({ volumeMounts }) => volumeMounts ?? []) ?? [];
      expect(mounts.filter(({ mountPath }) => mountPath.includes('kubernetes.io/serviceaccount'))).toEqual([]);
    });

    test('publishers may list pods and forward ports, only in this namespace', async () => {
      const groups = ['triton-publishers', 'system:authenticated'];
      expect(await granted(PUBLISHER, groups)).toEqual([
        'list pods',
        'get pods/portforward',
        'create pods/portforward',
      ]);
      expect(await granted(PUBLISHER, groups, 'default')).toEqual([]);
    });
  });

  test('moves to a folder with this package, by the commands of docs/components.md, without a change', async () => {
    const folder = join(scratch.directory, 'serving');
    const printed = await runBlock(
      'components.md',
      { name: 'local', directory: paths.root, env: stack.env },
      MOVE_TO_PACKAGE,
      {
        replace: {
          ...inFolder(folder),
          'cp Pulumi.$STACK.yaml': `cp '${join(stack.directory, 'Pulumi.local.yaml')}'`,
          'pulumi preview': 'pulumi up --yes --skip-preview --expect-no-changes',
        },
      },
    );
    expect(printed).toMatch(/Resources:\n +\d+ unchanged/);
  });

  test('destroy deletes all resources', async () => {
    await stack.destroy();
    expect((await stack.resources()).map(({ type }) => type)).toEqual([]);
    const { items } = await plane.client.core.listNamespace();
    expect(items.map(({ metadata }) => metadata?.name)).not.toContain(NAMESPACE);
  });
});
