import type { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { deployLocalStack, DEPLOYMENT, NAMESPACE, whyNoEngines } from '../support/local-stack';
import { whyMissing } from '../support/doc-commands';
import { expectNoChanges, recoverLostState } from '../support/lost-state';
import { Scratch } from '../support/temp-dir';
import type { TestStack } from '../support/stack';

const BUILD_MS = 60 * 60_000;

describeUnless(whyNoEngines() ?? whyMissing('jq', 'kubectl'), 'a stack whose Pulumi state is lost', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let stack: TestStack;

  beforeAll(async () => {
    ({ plane, stack } = await deployLocalStack(scratch, { config: { environment: { TZ: 'UTC' } } }));
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  /** Objects that must survive the import: pods, Secrets and the address of the Service. */
  const there = async (): Promise<unknown> => {
    const { apps, core } = plane.client;
    const deployment = await apps.readNamespacedDeployment({ name: DEPLOYMENT, namespace: NAMESPACE });
    const service = await core.readNamespacedService({ name: DEPLOYMENT, namespace: NAMESPACE });
    const secrets = (await core.listNamespacedSecret({ namespace: NAMESPACE })).items;
    return {
      deployment: [deployment.metadata?.uid, deployment.metadata?.generation],
      pods: (await plane.pods(NAMESPACE)).map(({ metadata }) => metadata?.uid).sort(),
      service: [service.metadata?.uid, service.spec?.clusterIP],
      secrets: secrets.map(({ metadata, data }) => [metadata?.name, metadata?.uid, data]),
    };
  };

  test('the commands of the runbook import the stack, and "pulumi up" changes no running objects', async () => {
    const before = { objects: await there(), outputs: await stack.outputs(), types: await types() };
    await recoverLostState(stack, plane, scratch);
    expect({ objects: await there(), outputs: await stack.outputs(), types: await types() }).toEqual(before);
    expect((await stack.resources()).filter(({ protect }) => protect === true)).toEqual([]);
    await expectNoChanges(stack);
  });

  /** URNs of all resources in the state, sorted. */
  async function types(): Promise<string[]> {
    return (await stack.resources()).map(({ urn }) => urn).sort();
  }

  test('a later change has no field conflicts and deletes removed fields', async () => {
    stack.configure({ environment: undefined, replicas: 1 });
    await stack.up();
    const { spec } = await plane.client.apps.readNamespacedDeployment({ name: DEPLOYMENT, namespace: NAMESPACE });
    expect(spec?.replicas).toBe(1);
    expect(spec?.template.spec?.containers[0]?.env?.map(({ name }) => name)).not.toContain('TZ');
    await stack.up('--expect-no-changes');
  });
});
