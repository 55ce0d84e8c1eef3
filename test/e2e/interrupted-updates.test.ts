import { writeFileSync } from 'node:fs';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { removeTornAttributes } from '../support/interrupted-update';
import { DESTROYS, interruptDestroy, interruptUpdates, UPDATES } from '../support/interruptions';
import { localStack, NAMESPACE, whyNoEngines } from '../support/local-stack';
import { defineStubCrds } from '../support/stub-crds';
import type { TestStack } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const EACH_MS = 10 * 60_000;

/** The second one creates, changes and deletes objects, and replaces the pods. */
const SETTINGS = [
  { environment: undefined, monitoring: undefined, autoscaling: undefined, clientNamespaces: undefined },
  {
    environment: { TZ: 'UTC' },
    monitoring: { namespace: 'monitoring' },
    autoscaling: { minReplicas: 2, maxReplicas: 3 },
    clientNamespaces: ['web'],
  },
] as const;
/** About as many steps as a destroy of this stack reports. */
const DESTROY_STEPS = 25;

/** Updates that end in the middle: the job is cut off, the machine or a provider fails, the API server is away. */
describeUnless(whyNoEngines(), 'a stack whose updates are interrupted', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let stack: TestStack;

  beforeAll(async () => {
    plane = await ControlPlane.start(scratch);
    await defineStubCrds(plane, ['keda.sh', 'monitoring.coreos.com']);
    for (const index of [0, 1, 2]) await plane.addGpuNode(`gpu-${index}`);
    stack = await localStack(scratch, plane);
    await stack.up();
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test('a state in a folder whose attributes are empty cannot be read until they are deleted', async () => {
    const list = () => stack.pulumi('stack', 'export', '--stack', stack.name);
    const state = await list();
    writeFileSync(`${stack.stateFile}.attrs`, '');
    await expect(list()).rejects.toThrow('failed to load checkpoint: EOF');
    removeTornAttributes(stack);
    expect(await list()).toBe(state);
  });

  test(
    `after each of ${UPDATES} interrupted updates, the documented commands leave the stack as an undisturbed update does`,
    () => interruptUpdates(stack, plane, SETTINGS),
    EACH_MS * (UPDATES + 2),
  );

  test(
    `after each of ${DESTROYS} interrupted destroys, the documented commands complete it`,
    async () => {
      for (let index = 0; index < DESTROYS; index += 1) {
        if (index > 0) await stack.up();
        await interruptDestroy(stack, plane, DESTROY_STEPS);
        const { items } = await plane.client.core.listNamespace();
        expect(items.map(({ metadata }) => metadata?.name)).not.toContain(NAMESPACE);
      }
    },
    EACH_MS * (DESTROYS + 1),
  );
});
