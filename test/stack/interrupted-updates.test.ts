import { writeFileSync } from 'node:fs';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import {
  removeTornAttributes,
  comparable,
  interruptedRun,
  INTERRUPTIONS,
  runEnded,
  type Interruption,
} from '../support/interrupted-update';
import { defineStubCrds } from '../support/stub-crds';
import { type TestStack, type StackConfig, localStack, NAMESPACE, whyNoEngines } from '../support/stack';
import { Scratch } from '../support/temp-dir';
import { ApiException, type KubernetesObject } from '@kubernetes/client-node';
import { IS_LONG, report, SeededRandom, SOAK_SEED } from '../support/soak';

const count = (variable: string, short: number, long: number): number =>
  Number(process.env[variable] ?? (IS_LONG ? long : short));

/** How many updates and destroys are interrupted. */
const UPDATES = count('INTERRUPTED_UPDATES', 2, 30);
const DESTROYS = count('INTERRUPTED_DESTROYS', 1, 10);

const AWAY_MS = IS_LONG ? 60_000 : 15_000;

const random = new SeededRandom(SOAK_SEED);

/** The next kind of interruption, and the step after which it happens. */
const choose = (steps: number) => ({
  interruption: random.pick(INTERRUPTIONS),
  afterSteps: random.integer(1, Math.max(1, steps - 1)),
  awayMs: AWAY_MS,
});

/** An object that a provider created before it was killed: Pulumi records that its creation failed. */
const TAKEN = /kubernetes:(\S+):(\w+) \S+ creating .*"([^"]+)" already exists/;

/**
 * The steps of docs/ci.md after a job that was cut off: removes the lock, deletes objects whose creation was interrupted,
 * and completes the update.
 */
async function repair(
  stack: TestStack,
  plane: ControlPlane,
  command: 'up' | 'destroy',
  interruption: Interruption,
): Promise<void> {
  await runEnded(stack);
  await stack.pulumi('cancel', '--stack', stack.name, '--yes');
  const pending = await stack.pendingCreates();
  for (const { inputs } of pending) {
    await plane.client.objects.delete(inputs as KubernetesObject).catch((error: unknown) => {
      if (!(error instanceof ApiException && error.code === 404)) throw error;
    });
  }
  const complete = () => stack.pulumi(command, '--stack', stack.name, '--yes', '--skip-preview', '--refresh');
  await complete().catch(async (error: unknown) => {
    const taken = interruption === 'provider' ? TAKEN.exec((error as Error).message) : null;
    if (taken === null) throw error;
    const [, version = '', kind, name = ''] = taken;
    const object = { apiVersion: version.replace('core/', ''), kind, metadata: { namespace: NAMESPACE, name } };
    await plane.client.objects.delete(object);
    await complete();
  });
  if (pending.length > 0 && command === 'up') {
    await stack.pulumi('refresh', '--stack', stack.name, '--yes', '--skip-preview', '--clear-pending-creates');
  }
}

/** Runs an undisturbed update, and returns the number of its steps and the resources that it leaves. */
async function undisturbed(stack: TestStack, plane: ControlPlane, settings: StackConfig) {
  stack.configure(settings);
  const { steps, exitCode, printed } = await interruptedRun(stack, plane, ['up'], {
    ...choose(1),
    afterSteps: Infinity,
  });
  if (exitCode !== 0) throw new Error(printed);
  return { settings, steps, resources: comparable(await stack.resources('--show-secrets')) };
}

/**
 * Updates a stack between two configurations, and interrupts each update at a random step. After the commands of
 * docs/ci.md, the stack must be as an undisturbed update leaves it.
 * @param settings two configurations with the same keys; the stack has the first one
 */
async function interruptUpdates(
  stack: TestStack,
  plane: ControlPlane,
  settings: readonly [StackConfig, StackConfig],
): Promise<void> {
  const second = await undisturbed(stack, plane, settings[1]);
  const first = await undisturbed(stack, plane, settings[0]);
  const converged: Record<string, number> = {};
  for (let index = 0; index < UPDATES; index += 1) {
    const { settings: next, steps, resources } = index % 2 === 0 ? second : first;
    stack.configure(next);
    const how = choose(steps);
    const { exitCode, printed } = await interruptedRun(stack, plane, ['up'], how);
    const title = `update ${index + 1} of seed ${SOAK_SEED}: ${how.interruption} after ${how.afterSteps} of ${steps} steps, exit code ${exitCode}`;
    await repair(stack, plane, 'up', how.interruption).catch((error: unknown) => {
      throw new Error(`${title}\n${printed}`, { cause: error });
    });
    expect({ title, resources: comparable(await stack.resources('--show-secrets')) }).toEqual({ title, resources });
    await stack.preview('--refresh', '--expect-no-changes');
    converged[how.interruption] = (converged[how.interruption] ?? 0) + 1;
    report(`interrupted updates that converged, of ${UPDATES}`, converged);
  }
}

/** Interrupts a destroy of a stack at a random step. After the commands of docs/ci.md, it must be complete. */
async function interruptDestroy(stack: TestStack, plane: ControlPlane, steps: number): Promise<void> {
  const how = choose(steps);
  const { exitCode, printed } = await interruptedRun(stack, plane, ['destroy'], how);
  const title = `destroy of seed ${SOAK_SEED}: ${how.interruption} after ${how.afterSteps} of ${steps} steps, exit code ${exitCode}`;
  await repair(stack, plane, 'destroy', how.interruption).catch((error: unknown) => {
    throw new Error(`${title}\n${printed}`, { cause: error });
  });
  expect({ title, resources: await stack.resources() }).toEqual({ title, resources: [] });
  process.stderr.write(`${title}: complete\n`);
}

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
