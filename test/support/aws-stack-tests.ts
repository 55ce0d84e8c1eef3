import {
  awsStack,
  expectNoChanges,
  expectPolicyPackPassed,
  HERE,
  refusedRequests,
  whyNoAwsStack,
  type AwsStack,
} from './aws-stack';
import { describeUnless } from './describe-unless';
import { PUBLISHER } from './setting-values';
import { Scratch } from './temp-dir';

const BUILD_MS = 60 * 60_000;
/** The AWS provider waits where AWS takes long: a minute for a lifecycle rule, another one for a cluster that goes. */
export const STEP_MS = 10 * 60_000;

/** As people give it, in the folder of the project. */
export const PACK = ['--policy-pack', 'policy'];

/**
 * Tests of a stack file of this repository: the real AWS provider on a mock of AWS, and the Kubernetes half on a real
 * control plane. `more` defines the tests of this stack that follow.
 */
export function describeAwsStack(name: 'staging' | 'prod', more: (made: () => AwsStack) => void): void {
  describeUnless(whyNoAwsStack(), `stack ${name} with the real AWS provider on a mock of AWS`, () => {
    jest.setTimeout(STEP_MS);
    const scratch = new Scratch();
    let made: AwsStack;

    beforeAll(async () => {
      made = await awsStack(scratch, name, { config: PUBLISHER });
    }, BUILD_MS);
    afterAll(() => scratch.clean());

    const getPool = async (): Promise<Record<string, unknown>> => {
      const pool = (await made.plane.client.objects.list('karpenter.sh/v1', 'NodePool')).items[0];
      return (pool as unknown as { spec: Record<string, unknown> }).spec;
    };

    test('with the default private API up creates the cluster, then stops and reports why', async () => {
      const { stack } = made;
      // The cluster does not exist yet, so the policies know no property of the objects in it.
      expectPolicyPackPassed(await stack.preview(...PACK));
      const refusal = stack.up().catch((error: unknown) => String(error));
      expect(await refusal).toMatch(/publicAccessCidrs is empty[^]*configured Kubernetes cluster is unreachable/);
      expect((await stack.resources()).map(({ type }) => type)).toContain('aws:eks/cluster:Cluster');
      stack.configure({ publicAccessCidrs: [HERE] });
    });

    test('with an allowed address up creates the rest without policy violations', async () => {
      const { stack, plane } = made;
      for (const said of [await stack.preview(...PACK), await stack.up(...PACK)]) {
        expectPolicyPackPassed(said);
      }
      const outputs = await stack.outputs();
      expect(outputs).toMatchObject({ region: 'us-east-1', clusterName: `triton-${name}`, namespace: 'triton' });
      expect(outputs['modelRepository']).toMatch(/^s3:\/\/[^/]+\/models$/);
      expect(outputs['publisherRoleArn']).toMatch(/^arn:aws:iam::\d+:role\//);
      expect(await plane.readyPods('triton')).toHaveLength(name === 'prod' ? 3 : 2);
    });

    test('the role deploy of CI may send each request of up, and a second up changes nothing, and refresh finds no drift', async () => {
      expect(refusedRequests(made, 'deploy', 'new')).toEqual([]);
      await expectNoChanges(made.stack);
      expect(refusedRequests(made, 'deploy', 'old')).toEqual([]);
    });

    test('the role preview of CI may send each request of the drift check', async () => {
      await made.stack.pulumi('preview', '--stack', made.stack.name, '--refresh', '--expect-no-changes');
      expect(refusedRequests(made, 'preview', 'old')).toEqual([]);
    });

    test('another allowed address changes only the cluster, in place', async () => {
      const { stack } = made;
      stack.configure({ publicAccessCidrs: [HERE, '192.0.2.0/24'] });
      const changed = await stack.changes();
      expect(changed).toEqual([{ op: 'update', urn: expect.stringMatching(/:eks\/cluster:Cluster::/) as string }]);
      await stack.up();
    });

    test('a change of a node pool changes only that pool', async () => {
      const { stack } = made;
      const pool = {
        name: 'a10g',
        instanceTypes: ['g5.2xlarge', 'g5.4xlarge', 'g5.8xlarge'],
        maximumGpus: 16,
        diskGiB: 200,
      };
      const { 'triton-serving:gpuNodePools': before } = stack.configure({ gpuNodePools: [pool] });
      stack.configure({ gpuNodePools: [pool, ...(before as object[]).slice(1)] });
      const changed = await stack.changes();
      expect(new Set(changed.map(({ op }) => op))).toEqual(new Set(['update']));
      for (const { urn } of changed) expect(urn).toMatch(/:(NodePool|NodeClass)::/);
      await stack.up();
      expect(await getPool()).toMatchObject({ limits: { 'nvidia.com/gpu': '16' } });
    });

    more(() => made);
  });
}
