import type { KubernetesObject, V1Node, V1Service } from '@kubernetes/client-node';
import { deletions } from '../support/aws-stack';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { startRun, type StartedRun } from '../support/interrupted-update';
import { gpuNodes, Karpenter, KWOK_NODE_CLASS, NODES_GONE_MS } from '../support/karpenter';
import { serveLoadBalancers } from '../support/load-balancers';
import { Scratch } from '../support/temp-dir';
import { type TestStack, localStack, NAMESPACE, whyNoEngines } from '../support/stack';
import { retriedOnConflict, until } from '../support/wait-for';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 10 * 60_000;
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

/** A drain that no test waits for. */
const DRAIN_SECONDS = 3600;
/** A pod that another team runs on a node of the pool, whose budget permits no eviction. */
const OTHER = { name: 'batch', namespace: 'default' };

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
    stack = await localStack(scratch, plane, { replicas: 1, gpuNodePools: [POOL] });
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  const label = (node: V1Node | undefined, name: string): string | undefined => node?.metadata?.labels?.[name];
  const scale = async (replicas: number): Promise<void> => {
    stack.configure({ replicas });
    await stack.up();
  };
  const expectSoon = (what: string, check: () => Promise<boolean>): Promise<void> => until(what, check, NODES_GONE_MS);
  const noNodes = (): Promise<void> =>
    expectSoon('no GPU node is left', async () => (await gpuNodes(plane)).length === 0);

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
    // Not at once: a pod that was evicted from a node before its registration gets another node.
    const expectOne = (capacityType: string): Promise<void> =>
      expectSoon(`the only node is ${capacityType}`, async () => {
        const types = (await gpuNodes(plane)).map((node) => label(node, 'karpenter.sh/capacity-type'));
        return types.length === 1 && types[0] === capacityType;
      });
    await scale(1);
    await expectOne('on-demand');
    await scale(0);
    await noNodes();

    karpenter.runOut();
    await scale(1);
    await expectOne('spot');
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

  // docs/infrastructure.md, "Deleting a stack".
  describe('destroy of a stack that is in use', () => {
    beforeAll(async () => {
      serveLoadBalancers(plane, scratch);
      stack.configure({
        replicas: 1,
        drainSeconds: DRAIN_SECONDS,
        exposure: {
          kind: 'internal-load-balancer',
          clientCidrs: ['10.1.0.0/16'],
          controllerCidrs: ['10.0.0.0/16'],
        },
        gpuNodePools: [{ ...POOL, instanceTypes: ['g6.xlarge'], capacityTypes: ['on-demand'], disruption: undefined }],
      });
      await stack.up();
    }, STEP_MS);

    const isDeleted = ({ metadata }: KubernetesObject): boolean => metadata?.deletionTimestamp !== undefined;

    /** The load balancer. Its name is generated. */
    const balancer = async (): Promise<V1Service> => {
      const { items } = await plane.client.core.listNamespacedService({ namespace: NAMESPACE });
      return items.find(({ spec }) => spec?.type === 'LoadBalancer') ?? {};
    };

    /** What a controller sets and removes: the one of load balancers, or the kubelet of a pod with open requests. */
    const hold = {
      service: (finalizers: string[]): Promise<unknown> =>
        retriedOnConflict(async () => {
          const body = await balancer();
          Object.assign((body.metadata ??= {}), { finalizers });
          const service = { name: body.metadata.name ?? '', namespace: NAMESPACE };
          await plane.client.core.replaceNamespacedService({ ...service, body });
        }),
      replicas: async (finalizers: string[]): Promise<void> => {
        const selector = (await stack.outputs())['podSelector'] as string;
        for (const { metadata } of await plane.pods(NAMESPACE, selector))
          await retriedOnConflict(async () => {
            const pod = { name: metadata?.name ?? '', namespace: NAMESPACE };
            const body = await plane.client.core.readNamespacedPod(pod);
            Object.assign((body.metadata ??= {}), { finalizers });
            await plane.client.core.replaceNamespacedPod({ ...pod, body });
          });
      },
    };

    const start = (): StartedRun => {
      const run = startRun(stack, ['destroy']);
      scratch.defer(() => void run.child.kill('SIGKILL'));
      return run;
    };

    test(
      'it waits for replicas that drain for an hour and for a load balancer; after an interruption, another one continues',
      async () => {
        await hold.service(['service.k8s.aws/resources']);
        await hold.replicas(['test/open-requests']);
        const first = start();
        await expectSoon('the replicas drain', async () => {
          const { items } = await plane.client.core.listNamespacedPod({ namespace: NAMESPACE });
          return items.length > 0 && items.every(isDeleted);
        });
        expect(await gpuNodes(plane)).toHaveLength(1);
        first.child.kill('SIGINT');
        const { exitCode, printed } = await first.ended;
        expect(exitCode).not.toBe(0);
        // The log of the job names what is in use.
        expect(printed).toMatch(/kubernetes:apps\/v1:Deployment triton\S* deleting/);

        const second = start();
        await hold.replicas([]);
        await expectSoon('the load balancer is in use', async () => isDeleted(await balancer()));
        expect(second.printed()).toMatch(/kubernetes:core\/v1:Service triton-internal\S* deleting/);
        await hold.service([]);
        expect(await second.ended).toMatchObject({ exitCode: 0 });
        expect(await stack.resources()).toEqual([]);
        await noNodes();
      },
      STEP_MS,
    );

    test(
      'it waits for a node pool with a pod that a budget protects, and ends when the budget is deleted',
      async () => {
        await stack.up();
        const labels = { app: OTHER.name };
        await plane.client.core.createNamespacedPod({
          namespace: OTHER.namespace,
          body: {
            metadata: { name: OTHER.name, labels },
            spec: {
              nodeSelector: { 'triton-serving/gpu-pool': 'gpu' },
              tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }],
              containers: [{ name: 'batch', image: 'batch' }],
            },
          },
        });
        await plane.client.policy.createNamespacedPodDisruptionBudget({
          namespace: OTHER.namespace,
          body: { metadata: { name: OTHER.name }, spec: { maxUnavailable: 0, selector: { matchLabels: labels } } },
        });
        await expectSoon('the pod runs', async () => {
          const { status } = await plane.client.core.readNamespacedPodStatus(OTHER);
          return status?.phase === 'Running';
        });
        const destroyed = start();
        await expectSoon('the pool waits', async () => {
          const { items } = await plane.client.objects.list('karpenter.sh/v1', 'NodePool');
          return items.some(isDeleted) && (await gpuNodes(plane)).some(isDeleted);
        });
        expect(destroyed.printed()).toMatch(/kubernetes:karpenter\.sh\/v1:NodePool gpu\S* deleting/);
        expect(destroyed.printed()).toMatch(/kubernetes:apps\/v1:Deployment triton\S* deleted/);
        const { spec } = await plane.client.core.readNamespacedPod(OTHER);
        expect((await gpuNodes(plane)).map(({ metadata }) => metadata?.name)).toContain(spec?.nodeName);
        await plane.client.policy.deleteNamespacedPodDisruptionBudget(OTHER);
        const { exitCode, printed } = await destroyed.ended;
        expect({ exitCode, deleted: deletions(printed) }).toMatchObject({
          exitCode: 0,
          deleted: expect.arrayContaining([expect.stringMatching(/NodePool gpu/)]) as string[],
        });
        expect(await stack.resources()).toEqual([]);
        await noNodes();
        const { items } = await plane.client.core.listNamespace();
        expect(items.map(({ metadata }) => metadata?.name)).not.toContain(NAMESPACE);
      },
      STEP_MS,
    );
  });
});
