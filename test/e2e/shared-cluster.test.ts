import type { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import {
  deployLocalStack,
  DEPLOYMENT,
  localStack,
  NAMESPACE,
  setKubeconfig,
  whyNoEngines,
} from '../support/local-stack';
import { Scratch } from '../support/temp-dir';
import type { TestStack } from '../support/stack';

const BUILD_MS = 60 * 60_000;

describeUnless(whyNoEngines(), 'an existing cluster that several stacks share', () => {
  const scratch = new Scratch();
  const otherScratch = new Scratch();
  let plane: ControlPlane;
  let stack: TestStack;

  beforeAll(async () => {
    ({ plane, stack } = await deployLocalStack(scratch));
  }, BUILD_MS);
  afterAll(async () => {
    await otherScratch.clean();
    await scratch.clean();
  });

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
    const second = await localStack(otherScratch, plane);
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
});
