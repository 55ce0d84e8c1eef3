import type { KubernetesObject, V1Service } from '@kubernetes/client-node';
import { deletions } from '../support/aws-stack';
import { untilIn } from '../support/cluster-state';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { startRun, type StartedRun } from '../support/interrupted-update';
import { gpuNodes, Karpenter, KWOK_NODE_CLASS, NODES_GONE_MS } from '../support/karpenter';
import { serveLoadBalancers } from '../support/load-balancers';
import { localStack, NAMESPACE, whyNoEngines } from '../support/local-stack';
import { Scratch } from '../support/temp-dir';
import type { TestStack } from '../support/stack';
import { retriedOnConflict } from '../support/wait-for';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 10 * 60_000;

/** A drain that no test waits for. */
const DRAIN_SECONDS = 3600;
/** A pod that another team runs on a node of the pool, whose budget permits no eviction. */
const OTHER = { name: 'batch', namespace: 'default' };

/** What a destroy waits for, and how it goes on; docs/infrastructure.md, "Deleting a stack". */
describeUnless(whyNoEngines('karpenter'), 'destroy of a stack that is in use', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let stack: TestStack;

  beforeAll(async () => {
    plane = await ControlPlane.start(scratch);
    await plane.addNode({ name: 'cpu-0' });
    await Karpenter.start(plane, { instanceTypes: ['g6.xlarge'], zones: ['us-east-1a'] });
    serveLoadBalancers(plane, scratch);
    stack = await localStack(scratch, plane, {
      config: {
        replicas: 1,
        drainSeconds: DRAIN_SECONDS,
        exposure: {
          kind: 'internal-load-balancer',
          clientCidrs: ['10.1.0.0/16'],
          controllerCidrs: ['10.0.0.0/16'],
        },
        gpuNodePools: [
          {
            name: 'gpu',
            nodeClass: KWOK_NODE_CLASS,
            instanceTypes: ['g6.xlarge'],
            capacityTypes: ['on-demand'],
            maximumGpus: 2,
          },
        ],
      },
    });
    await stack.up();
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  const expectSoon = (what: string, check: () => Promise<boolean>): Promise<void> =>
    untilIn(plane, what, check, NODES_GONE_MS);
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
      await expectSoon('no GPU node is left', async () => (await gpuNodes(plane)).length === 0);
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
      await expectSoon('no GPU node is left', async () => (await gpuNodes(plane)).length === 0);
      const { items } = await plane.client.core.listNamespace();
      expect(items.map(({ metadata }) => metadata?.name)).not.toContain(NAMESPACE);
    },
    STEP_MS,
  );
});
