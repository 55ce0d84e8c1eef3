import {
  awsStack,
  deletions,
  expectInOrder,
  HERE,
  ONE_NODE_GROUP,
  whyNoAwsStack,
  type AwsStack,
} from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { askMoto } from '../support/moto';
import { SETTING_CHANGES } from '../support/setting-changes';
import { readTable, tryChange } from '../support/settings-table';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
/** The AWS provider waits where AWS takes long: a minute for a lifecycle rule, another one for a cluster that goes. */
const STEP_MS = 20 * 60_000;

/** Settings whose rows are the same for every stack. */
const SHORT = ['image', 'natGateways', 'namespace', 'bucketReaders'];

/** Changes of a stack file that could delete what a live stack serves. */
describeUnless(whyNoAwsStack(), 'a live stack, with the real AWS provider on a mock of AWS', () => {
  const scratch = new Scratch();
  let made: AwsStack;

  beforeAll(async () => {
    made = await awsStack(scratch, 'staging', {
      config: { publicAccessCidrs: [HERE], bucketForceDestroy: false },
      nodeLabels: { 'triton-serving/gpu-pool': 'fixed' },
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

  // setting-changes.test.ts checks all rows.
  test.each(SETTING_CHANGES.filter(({ setting }) => SHORT.includes(setting)))(
    'a change of $setting does what docs/infrastructure.md says',
    async (change) => {
      const row = await tryChange(made.stack, change);
      expect(row).toEqual(readTable().find(({ setting }) => setting === change.setting));
    },
    STEP_MS,
  );

  test(
    'another clusterName creates the new cluster before anything of the old one is deleted',
    async () => {
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
    'renderManifestsTo is refused, and a preview without it changes nothing',
    async () => {
      const { stack } = made;
      const before = stack.configure({ renderManifestsTo: 'manifests' });
      const refusal = await stack.preview().catch((error: unknown) => String(error));
      stack.configure(before);
      expect(refusal).toMatch(/renderManifestsTo is set, but this stack applied \d+ objects to a cluster/);
      expect(await stack.plan()).toEqual([]);
    },
    STEP_MS,
  );

  test(
    'createNamespace: false releases the namespace without deleting it or its policies',
    async () => {
      const { stack } = made;
      const before = await served();
      stack.configure({ createNamespace: false });
      await stack.up();
      expect(await served()).toEqual(before);
      await stack.up('--expect-no-changes');
    },
    STEP_MS,
  );

  test(
    'stack rename replaces nothing',
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
    'autoMode: false keeps the setting that enforces network policies',
    async () => {
      const { stack, plane } = made;
      stack.configure({
        autoMode: false,
        gpuNodePools: [{ name: 'fixed', ...ONE_NODE_GROUP }],
      });
      await stack.up();
      const settings = await plane.client.core.readNamespacedConfigMap({
        name: 'amazon-vpc-cni',
        namespace: 'kube-system',
      });
      expect(settings.data).toEqual({ 'enable-network-policy-controller': 'true' });
      await stack.up('--expect-no-changes');
    },
    STEP_MS,
  );

  test(
    'a destroy that fails at a bucket with models leaves its key, its settings and its models usable',
    async () => {
      const { stack, moto } = made;
      const bucket = String((await stack.outputs())['modelRepository']).split('/')[2] ?? '';
      await askMoto(moto, 's3', `/${bucket}/models/net/1/model.pt`, {}, 'weights', 'PUT');
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
