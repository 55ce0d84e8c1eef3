import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { localStack, setKubeconfig, whyNoEngines } from '../support/local-stack';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const BUILD_MS = 60 * 60_000;
const NAMESPACE = 'serve';

describeUnless(whyNoEngines(), 'a stack that moves to another cluster', () => {
  const [scratch, otherScratch] = [new Scratch(), new Scratch()];
  afterAll(async () => {
    await otherScratch.clean();
    await scratch.clean();
  });

  test(
    'if the first update fails half way, the next one creates the replicas there before it deletes the old ones',
    async () => {
      const old = await ControlPlane.start(scratch);
      const next = await ControlPlane.start(otherScratch);
      for (const plane of [old, next]) await plane.addNode({ name: 'cpu-0' });
      const stack = await localStack(scratch, old, {
        config: { gpusPerPod: 0, replicas: 1, namespace: { name: NAMESPACE } },
      });
      await stack.up();
      const ready = async (): Promise<number[]> =>
        Promise.all([old, next].map(async (plane) => (await plane.readyPods(NAMESPACE).catch(() => [])).length));
      expect(await ready()).toEqual([1, 0]);

      // The update fails, because the namespace is there.
      await next.client.core.createNamespace({ body: { metadata: { name: NAMESPACE } } });
      await setKubeconfig(stack, next.access.kubeconfig());
      await expect(stack.up()).rejects.toThrow(`namespaces "${NAMESPACE}" already exists`);
      expect(await ready()).toEqual([1, 0]);

      await next.client.core.deleteNamespace({ name: NAMESPACE });
      const namespaces = async (plane: ControlPlane): Promise<(string | undefined)[]> =>
        (await plane.client.core.listNamespace()).items.map(({ metadata }) => metadata?.name);
      await until('it is deleted', async () => !(await namespaces(next)).includes(NAMESPACE));
      await stack.up();
      expect(await ready()).toEqual([0, 1]);
      expect(await namespaces(old)).not.toContain(NAMESPACE);
      await stack.preview('--refresh', '--expect-no-changes');

      await stack.destroy();
      expect(await namespaces(next)).not.toContain(NAMESPACE);
      expect(await stack.resources()).toEqual([]);
    },
    BUILD_MS,
  );
});

describeUnless(whyNoEngines(), 'a protected stack that changes its namespace', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());

  test(
    'is refused, and with namespace.create: false keeps the old namespace with what others have in it',
    async () => {
      const plane = await ControlPlane.start(scratch);
      await plane.addNode({ name: 'cpu-0' });
      const config = { gpusPerPod: 0, replicas: 1, namespace: { name: 'own' }, protect: true };
      const stack = await localStack(scratch, plane, { config });
      await stack.up();
      const { core } = plane.client;
      const body = { metadata: { name: 'of-others' } };
      await core.createNamespacedConfigMap({ namespace: 'own', body });
      const { uid } = (await core.readNamespace({ name: 'own' })).metadata ?? {};
      await core.createNamespace({ body: { metadata: { name: 'platform' } } });

      stack.configure({ namespace: { name: 'platform' } });
      await expect(stack.preview()).rejects.toThrow(/core\/v1:Namespace::triton[^]*protect/);

      stack.configure({ namespace: { name: 'platform', create: false } });
      await stack.up();
      expect(await plane.readyPods('platform')).toHaveLength(1);
      expect((await core.readNamespace({ name: 'own' })).metadata?.uid).toBe(uid);
      expect(await core.readNamespacedConfigMap({ name: 'of-others', namespace: 'own' })).toMatchObject(body);
      await stack.up('--expect-no-changes');
    },
    BUILD_MS,
  );
});
