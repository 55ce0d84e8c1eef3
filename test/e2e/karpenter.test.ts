import type { V1Node } from '@kubernetes/client-node';
import { untilIn } from '../support/cluster-state';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { gpuNodes, Karpenter, KWOK_NODE_CLASS, NODES_GONE_MS } from '../support/karpenter';
import { localStack, NAMESPACE, whyNoEngines } from '../support/local-stack';
import { Scratch } from '../support/temp-dir';
import type { TestStack } from '../support/stack';

const BUILD_MS = 60 * 60_000;
const MAXIMUM_GPUS = 2;
const POOL = {
  name: 'gpu',
  nodeClass: KWOK_NODE_CLASS,
  instanceTypes: ['g6.2xlarge', 'g6.xlarge'],
  capacityTypes: ['spot', 'on-demand'],
  maximumGpus: MAXIMUM_GPUS,
  disruption: { consolidateAfter: '0s' },
};
const ZONES = ['us-east-1a', 'us-east-1b'];

describeUnless(whyNoEngines('karpenter'), 'a GPU node pool of a real Karpenter', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let karpenter: Karpenter;
  let stack: TestStack;
  let selector: string;

  beforeAll(async () => {
    plane = await ControlPlane.start(scratch);
    await plane.addNode({ name: 'cpu-0' });
    karpenter = await Karpenter.start(plane, {
      instanceTypes: ['g6.xlarge', 'g6.2xlarge', 'g5.xlarge', 'g6.12xlarge'],
      zones: ZONES,
    });
    stack = await localStack(scratch, plane, { config: { replicas: 1, gpuNodePools: [POOL] } });
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  const label = (node: V1Node | undefined, name: string): string | undefined => node?.metadata?.labels?.[name];
  const scale = async (replicas: number): Promise<void> => {
    stack.configure({ replicas });
    await stack.up();
  };
  const expectSoon = (what: string, check: () => Promise<boolean>, timeoutMs?: number): Promise<void> =>
    untilIn(plane, what, check, timeoutMs);
  const noNodes = (): Promise<void> =>
    expectSoon('no GPU node is left', async () => (await gpuNodes(plane)).length === 0, NODES_GONE_MS);

  test('a first up starts without GPU nodes and gets the cheapest spot machine that fits', async () => {
    expect(await gpuNodes(plane)).toEqual([]);
    await stack.up();
    selector = (await stack.outputs())['podSelector'] as string;
    const [server] = await plane.readyPods(NAMESPACE, selector);
    const nodes = await gpuNodes(plane);
    expect(nodes).toHaveLength(1);
    expect(server?.spec?.nodeName).toBe(nodes[0]?.metadata?.name);
    expect(label(nodes[0], 'karpenter.sh/capacity-type')).toBe('spot');
    expect(label(nodes[0], 'node.kubernetes.io/instance-type')).toBe('g6.xlarge');
    expect(nodes[0]?.spec?.taints?.map(({ key }) => key)).toContain('nvidia.com/gpu');
    await stack.up('--expect-no-changes');
  });

  test('Karpenter adds a node for each GPU pod, up to the limit of the pool', async () => {
    // Pods of a Deployment, because a pod may be evicted from its new node: Kubernetes' taint eviction may use a stale
    // state of the node from before its registration. A pod without a Deployment would not be replaced.
    const labels = { app: 'other' };
    const container = { name: 'other', image: 'other', resources: { limits: { 'nvidia.com/gpu': '1' } } };
    const tolerations = [{ key: 'nvidia.com/gpu', operator: 'Exists' }];
    const template = { metadata: { labels }, spec: { containers: [container], tolerations } };
    await plane.client.apps.createNamespacedDeployment({
      namespace: 'default',
      body: {
        metadata: { name: 'other' },
        spec: { replicas: MAXIMUM_GPUS, selector: { matchLabels: labels }, template },
      },
    });
    await expectSoon('the pool is as large as it may be', async () => (await gpuNodes(plane)).length === MAXIMUM_GPUS);
    await expectSoon('the pod that is left over is refused a node', async () => {
      const { items } = await plane.client.core.listNamespacedEvent({ namespace: 'default' });
      return items.some(({ message }) => /exceed limit/.test(message ?? ''));
    });
    await expectSoon('the other one runs', async () => (await plane.readyPods('default')).length === MAXIMUM_GPUS - 1);
    expect(await gpuNodes(plane)).toHaveLength(MAXIMUM_GPUS);
    await plane.client.apps.deleteNamespacedDeployment({ namespace: 'default', name: 'other' });
  });

  test('Karpenter scales back to zero nodes', async () => {
    await scale(0);
    await noNodes();
  });

  test('Karpenter uses on-demand machines while spot is unavailable', async () => {
    karpenter.runOut('spot');
    await scale(1);
    const [onDemand] = await gpuNodes(plane);
    expect(label(onDemand, 'karpenter.sh/capacity-type')).toBe('on-demand');
    await scale(0);
    await noNodes();

    karpenter.runOut();
    await scale(1);
    expect((await gpuNodes(plane)).map((node) => label(node, 'karpenter.sh/capacity-type'))).toEqual(['spot']);
  });

  test('replicas share nodes with GPUs for several, one node in each zone, as npm run cost estimates', async () => {
    await scale(0);
    await noNodes();
    const gpuNodePools = [{ ...POOL, instanceTypes: ['g6.12xlarge'], maximumGpus: 16, zones: ZONES }];
    stack.configure({ replicas: 4, gpuNodePools });
    await stack.up();
    expect(await plane.readyPods(NAMESPACE, selector)).toHaveLength(4);
    const nodes = await gpuNodes(plane);
    expect(nodes.map((node) => label(node, 'topology.kubernetes.io/zone')).sort()).toEqual(ZONES);
  });

  test('destroy leaves no machines', async () => {
    await stack.destroy();
    await noNodes();
  });
});
