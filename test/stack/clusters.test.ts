import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import {
  type StackConfig,
  type TestStack,
  DEPLOYMENT,
  localStack,
  NAMESPACE,
  setKubeconfig,
  whyNoEngines,
} from '../support/stack';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const BUILD_MS = 60 * 60_000;

describeUnless(whyNoEngines(), 'stacks in an existing cluster', () => {
  const scratches: Scratch[] = [];
  const newScratch = (): Scratch => {
    scratches.unshift(new Scratch());
    return scratches[0] as Scratch;
  };
  /** A stack with a folder and a state of its own. */
  const newStack = (config: StackConfig = {}): Promise<TestStack> => localStack(newScratch(), plane, config);
  let plane: ControlPlane;
  let stack: TestStack;

  beforeAll(async () => {
    plane = await ControlPlane.start(newScratch());
    for (const index of [0, 1, 2]) await plane.addGpuNode(`gpu-${index}`);
    await plane.addNode({ name: 'cpu-0' });
    stack = await newStack();
    await stack.up();
  }, BUILD_MS);
  afterAll(async () => {
    for (const scratch of scratches) await scratch.clean();
  });

  const namespaces = async (of: ControlPlane): Promise<(string | undefined)[]> =>
    (await of.client.core.listNamespace()).items.map(({ metadata }) => metadata?.name);

  /** What changes if an object is recreated. */
  const served = async (): Promise<unknown> => {
    const { apps, core } = plane.client;
    return {
      namespace: (await core.readNamespace({ name: NAMESPACE })).metadata?.uid,
      deployment: (await apps.readNamespacedDeployment({ name: DEPLOYMENT, namespace: NAMESPACE })).metadata?.uid,
      pods: (await plane.readyPods(NAMESPACE)).map(({ metadata }) => metadata?.uid).sort(),
    };
  };

  test('a second stack with the same namespace is refused, and its destroy deletes nothing of the first', async () => {
    const before = await served();
    const second = await newStack();
    const refusal = await second.up().catch((error: unknown) => String(error));
    expect(refusal).toMatch(/namespaces "triton" already exists/);
    await second.destroy();
    expect(await served()).toEqual(before);
    await stack.up('--expect-no-changes');
  });

  const otherAddress = (): string =>
    plane.access
      .kubeconfig()
      .replace('"server":"https://127.0.0.1', '"tls-server-name":"kubernetes","server":"https://localhost');

  test('another address of the cluster deletes nothing without an identifier, in any update', async () => {
    const before = await served();
    await setKubeconfig(stack, otherAddress());
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      const refusal = await stack.up().catch((error: unknown) => String(error));
      expect(refusal).toMatch(/namespaces "triton" already exists/);
      expect(await served()).toEqual(before);
    }
    await setKubeconfig(stack, plane.access.kubeconfig());
    await stack.up();
    expect(await served()).toEqual(before);
  });

  test('another address of the cluster replaces nothing with an identifier', async () => {
    const before = await served();
    const identifier = ['existingCluster.identifier', 'cluster-of-a-test'];
    await stack.pulumi('config', 'set', '--stack', stack.name, '--path', ...identifier);
    await stack.up();
    await setKubeconfig(stack, otherAddress());
    expect(await stack.plan()).toEqual(['update pulumi:providers:kubernetes']);
    await stack.up();
    expect(await served()).toEqual(before);
  });

  test('a protected stack refuses another namespace, and with namespace.create: false keeps the old one with what others have in it', async () => {
    const own = await newStack({ gpusPerPod: 0, replicas: 1, namespace: { name: 'own' }, protect: true });
    await own.up();
    const { core } = plane.client;
    const body = { metadata: { name: 'of-others' } };
    await core.createNamespacedConfigMap({ namespace: 'own', body });
    const { uid } = (await core.readNamespace({ name: 'own' })).metadata ?? {};
    await core.createNamespace({ body: { metadata: { name: 'platform' } } });

    own.configure({ namespace: { name: 'platform' } });
    await expect(own.preview()).rejects.toThrow(/core\/v1:Namespace::triton[^]*protect/);

    own.configure({ namespace: { name: 'platform', create: false } });
    await own.up();
    expect(await plane.readyPods('platform')).toHaveLength(1);
    expect((await core.readNamespace({ name: 'own' })).metadata?.uid).toBe(uid);
    expect(await core.readNamespacedConfigMap({ name: 'of-others', namespace: 'own' })).toMatchObject(body);
    await own.up('--expect-no-changes');
  });

  test(
    'a stack moves to another cluster: if the first update fails half way, the next one creates the replicas there before it deletes the old ones',
    async () => {
      const name = 'serve';
      const next = await ControlPlane.start(newScratch());
      await next.addNode({ name: 'cpu-0' });
      const moving = await newStack({ gpusPerPod: 0, replicas: 1, namespace: { name } });
      await moving.up();
      const ready = async (): Promise<number[]> =>
        Promise.all([plane, next].map(async (one) => (await one.readyPods(name).catch(() => [])).length));
      expect(await ready()).toEqual([1, 0]);

      // The update fails, because the namespace is there.
      await next.client.core.createNamespace({ body: { metadata: { name } } });
      await setKubeconfig(moving, next.access.kubeconfig());
      await expect(moving.up()).rejects.toThrow(`namespaces "${name}" already exists`);
      expect(await ready()).toEqual([1, 0]);

      await next.client.core.deleteNamespace({ name });
      await until('it is deleted', async () => !(await namespaces(next)).includes(name));
      await moving.up();
      expect(await ready()).toEqual([0, 1]);
      expect(await namespaces(plane)).not.toContain(name);
      await moving.preview('--refresh', '--expect-no-changes');

      await moving.destroy();
      expect(await namespaces(next)).not.toContain(name);
      expect(await moving.resources()).toEqual([]);
    },
    BUILD_MS,
  );
});
