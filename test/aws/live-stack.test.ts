import { awsStack, deletions, expectInOrder, HERE, whyNoAwsStack, type AwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { askMoto } from '../support/moto';
import type { StackConfig } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
/** The AWS provider waits where AWS takes long: a minute for a lifecycle rule, another one for a cluster that goes. */
const STEP_MS = 20 * 60_000;

/** Changes of a stack file that could delete what a live stack serves. */
describeUnless(whyNoAwsStack(), 'a live stack, with the real AWS provider on a mock of AWS', () => {
  const scratch = new Scratch();
  let made: AwsStack;

  beforeAll(async () => {
    made = await awsStack(scratch, 'staging', {
      config: { publicAccessCidrs: [HERE], protect: true, clusterName: 'triton-staging' },
    });
    await made.stack.up();
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  /** The uid of the namespace and the names of its pods, which change when the namespace is recreated. */
  const served = async (): Promise<unknown> => ({
    namespace: (await made.plane.client.core.readNamespace({ name: 'triton' })).metadata?.uid,
    pods: (await made.plane.readyPods('triton')).map(({ metadata }) => metadata?.name).sort(),
    policies: (await made.plane.client.networking.listNamespacedNetworkPolicy({ namespace: 'triton' })).items
      .map(({ metadata }) => metadata?.name)
      .sort(),
  });

  test.each<[setting: string, config: StackConfig, protectedResource: RegExp]>([
    ['clusterName', { clusterName: 'triton-second' }, /eks\/cluster:Cluster::cluster/],
    ['namespace', { namespace: { name: 'vision' } }, /core\/v1:Namespace::triton/],
    ['modelRepository', { modelRepository: 's3://another-bucket/models' }, /s3\/bucket:Bucket.*::models/],
  ])(
    'protect refuses another %s, and names what would be deleted',
    async (_, config, resource) => {
      const before = made.stack.configure(config);
      const refusal = await made.stack.preview().catch((error: unknown) => String(error));
      made.stack.configure(before);
      expect(refusal).toMatch(resource);
      expect(refusal).toMatch(/protect/);
    },
    STEP_MS,
  );

  test(
    'namespace.create: false releases the namespace without deleting it or its policies',
    async () => {
      const { stack } = made;
      const before = await served();
      stack.configure({ namespace: { create: false } });
      await stack.up();
      expect(await served()).toEqual(before);
      await stack.up('--expect-no-changes');
    },
    STEP_MS,
  );

  test(
    'without protection, another clusterName creates the new cluster before anything of the old one is deleted',
    async () => {
      made.stack.configure({ protect: false });
      await made.stack.up();
      const before = made.stack.configure({ clusterName: 'triton-second' });
      const steps = await made.stack.plan();
      made.stack.configure(before);
      const created = steps.indexOf('create-replacement aws:eks/cluster:Cluster');
      expect(created).toBeGreaterThan(-1);
      expect(steps.slice(0, created).filter((step) => step.startsWith('delete'))).toEqual([]);
      const [newPods, oldPods] = ['create-replacement', 'delete-replaced'].map((op) =>
        steps.indexOf(`${op} kubernetes:apps/v1:Deployment`),
      ) as [number, number];
      expect(newPods).toBeGreaterThan(created);
      expect(oldPods).toBeGreaterThan(newPods);
    },
    STEP_MS,
  );

  test(
    'stack rename replaces nothing if the stack file names the cluster',
    async () => {
      const { stack } = made;
      const before = await served();
      await stack.rename('stage-2');
      expect((await stack.plan()).filter((step) => /delete|replace|create/.test(step))).toEqual([]);
      await stack.up();
      expect(await served()).toEqual(before);
      expect((await stack.outputs())['clusterName']).toBe('triton-staging');
      await stack.up('--expect-no-changes');
    },
    STEP_MS,
  );

  test(
    'a destroy of what was unprotected in the state fails at a bucket with models, and leaves its key, its settings and its models usable',
    async () => {
      const { stack, moto } = made;
      const bucket = String((await stack.outputs())['modelRepository']).split('/')[2] ?? '';
      await askMoto(moto, 's3', `/${bucket}/models/net/1/model.pt`, {}, 'weights', 'PUT');
      stack.configure({ protect: true });
      await stack.up();
      await stack.pulumi('state', 'unprotect', '--all', '--yes', '--stack', stack.name);
      const body = JSON.stringify({ deletionProtection: false });
      await askMoto(moto, 'eks', '/clusters/triton-staging/update-config', {}, body);
      const refusal = await stack.destroy().catch((error: unknown) => String(error));
      expect(refusal).toContain('BucketNotEmpty');

      const key = (await stack.resources()).find(({ urn }) => urn.endsWith('kms/key:Key::models-key'));
      const target = { 'x-amz-target': 'TrentService.DescribeKey', 'content-type': 'application/x-amz-json-1.1' };
      const described = await askMoto(moto, 'kms', '/', target, JSON.stringify({ KeyId: key?.id }));
      expect(JSON.parse(described)).toMatchObject({ KeyMetadata: { KeyState: 'Enabled' } });
      expect(await askMoto(moto, 's3', `/${bucket}?versioning`)).toContain('Enabled');
      expect(await askMoto(moto, 's3', `/${bucket}?policy`)).toContain('ThisAccountOnly');
      expect(await askMoto(moto, 's3', `/${bucket}?encryption`)).toContain(key?.id ?? 'no key');
      expectInOrder(deletions(refusal), [/:Deployment /, /^aws:eks:Cluster /]);
    },
    STEP_MS,
  );
});
