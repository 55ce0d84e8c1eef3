import { ensureKubernetesPlugin, findInstalledPlugin, packageVersion } from '../../scripts/lib/toolchain/pulumi';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { defineForeignKinds } from '../support/foreign-kinds';
import { defineKarpenterKinds } from '../support/karpenter';
import { whyNoEngines } from '../support/local-stack';
import { leftovers, testMoto, type Moto } from '../support/moto';
import { Scratch } from '../support/scratch';
import { TestStack } from '../support/stack';

const BUILD_MS = 60 * 60_000;
/** The AWS provider waits where AWS takes long: a minute for a lifecycle rule, another one for a cluster that goes. */
const STEP_MS = 10 * 60_000;

const aws = findInstalledPlugin('aws', packageVersion('@pulumi/aws'));
const reason =
  whyNoEngines('karpenter') ??
  (aws === undefined
    ? `Pulumi's AWS plugin is not installed: pulumi plugin install resource aws ${packageVersion('@pulumi/aws')}`
    : undefined);

/** Both stacks with the real AWS provider on a mock of AWS, and the Kubernetes half on a real control plane. */
for (const name of ['staging', 'prod'] as const) {
  describeUnless(reason, `stack ${name} with the real AWS provider on a mock of AWS`, () => {
    const scratch = new Scratch();
    let plane: ControlPlane;
    let moto: Moto;
    let stack: TestStack;

    beforeAll(async () => {
      plane = await ControlPlane.start(scratch);
      await defineKarpenterKinds(plane);
      await defineForeignKinds(plane);
      // What Auto Mode would bring for the servers.
      for (const index of [0, 1, 2]) {
        await plane.addNode({
          name: `gpu-${index}`,
          gpus: 1,
          labels: { 'triton-serving/gpu': 'true' },
          taints: [{ key: 'nvidia.com/gpu', value: 'true', effect: 'NoSchedule' }],
        });
      }
      moto = await testMoto(scratch, plane.access);
      if (aws === undefined) throw new Error('not to be reached');
      stack = await TestStack.create(scratch, name, {
        plugins: [aws, await ensureKubernetesPlugin()],
        env: moto.env,
      });
    }, BUILD_MS);
    afterAll(() => scratch.clean());

    const poolOf = async (): Promise<Record<string, unknown>> => {
      const pool = (await plane.client.objects.list('karpenter.sh/v1', 'NodePool')).items[0];
      return (pool as unknown as { spec: Record<string, unknown> }).spec;
    };

    test(
      'up makes it',
      async () => {
        await stack.up();
        const outputs = await stack.outputs();
        expect(outputs).toMatchObject({ region: 'us-east-1', clusterName: `triton-${name}`, namespace: 'triton' });
        expect(outputs['modelRepository']).toMatch(/^s3:\/\/[^/]+\/models$/);
        expect(outputs['publisherRoleArn']).toMatch(/^arn:aws:iam::\d+:role\//);
        expect(await plane.readyPods('triton')).toHaveLength(name === 'prod' ? 3 : 2);
      },
      STEP_MS,
    );

    test(
      'a second up changes nothing, nor does a refresh find anything',
      async () => {
        await stack.up('--expect-no-changes');
        await stack.pulumi('refresh', '--stack', name, '--yes', '--skip-preview', '--expect-no-changes');
        await stack.up('--expect-no-changes');
      },
      STEP_MS,
    );

    test(
      'a change of a pool changes the pool and nothing else',
      async () => {
        const pool = {
          name: 'a10g',
          instanceTypes: ['g5.2xlarge', 'g5.4xlarge', 'g5.8xlarge'],
          maximumGpus: 16,
          diskGiB: 200,
        };
        stack.configure({ gpuNodePools: [pool] });
        const changed = await stack.changes();
        expect(new Set(changed.map(({ op }) => op))).toEqual(new Set(['update']));
        for (const { urn } of changed) expect(urn).toMatch(/:(NodePool|NodeClass)::/);
        await stack.up();
        expect(await poolOf()).toMatchObject({ limits: { 'nvidia.com/gpu': '16' } });
        await stack.up('--expect-no-changes');
      },
      STEP_MS,
    );

    if (name === 'prod') {
      test(
        'destroy is refused: what cannot be made again is protected',
        async () => {
          const before = (await stack.resources()).length;
          await expect(stack.destroy()).rejects.toThrow(/protected/);
          const resources = await stack.resources();
          const kept = resources.filter(({ protect }) => protect === true).map(({ type }) => type);
          expect(kept).toEqual(
            expect.arrayContaining(['aws:s3/bucket:Bucket', 'aws:kms/key:Key', 'aws:eks/cluster:Cluster']),
          );
          expect(resources).toHaveLength(before);
          expect(await plane.readyPods('triton')).toHaveLength(3);
        },
        STEP_MS,
      );
    } else {
      test(
        'destroy leaves nothing',
        async () => {
          await stack.destroy();
          expect(await stack.resources()).toEqual([]);
          expect(await leftovers(moto)).toEqual([]);
        },
        STEP_MS,
      );
    }
  });
}
