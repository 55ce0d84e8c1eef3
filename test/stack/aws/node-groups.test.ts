import {
  awsStack,
  deletions,
  expectInOrder,
  expectNoChanges,
  expectPolicyPackPassed,
  HERE,
  whyNoAwsStack,
  type AwsStack,
} from '../../support/aws-stack';
import { describeUnless } from '../../support/describe-unless';
import { askMoto, leftovers } from '../../support/moto';
import { Scratch } from '../../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 10 * 60_000;

const ON_DEMAND = { name: 'floor', instanceTypes: ['g5.xlarge'], capacityTypes: ['on-demand'], nodes: 1 };
const SPOT = { name: 'burst', instanceTypes: ['g5.xlarge', 'g5.2xlarge'], capacityTypes: ['spot'], nodes: 1 };

interface NodeGroup {
  nodegroupName: string;
  amiType: string;
  capacityType: string;
  instanceTypes: string[];
  scalingConfig: { minSize: number; maxSize: number; desiredSize: number };
  launchTemplate: { version: string };
}

const LARGER = { nodes: 2, labels: { team: 'vision' } };

/** Managed groups in a cluster with Auto Mode, what they need, and what a change does to them. */
describeUnless(whyNoAwsStack(), 'staging on managed node groups, with the real AWS provider on a mock of AWS', () => {
  const scratch = new Scratch();
  let made: AwsStack;

  beforeAll(async () => {
    made = await awsStack(scratch, 'staging', {
      config: { publicAccessCidrs: [HERE], gpuNodePools: [ON_DEMAND, SPOT] },
      nodeLabels: { 'triton-serving/gpu-pool': ON_DEMAND.name },
    });
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  /** As AWS has them, by the name of the pool. */
  const groups = async (): Promise<Record<string, NodeGroup>> => {
    const all = '/clusters/triton-staging/node-groups';
    const { nodegroups } = JSON.parse(await askMoto(made.moto, 'eks', all)) as { nodegroups: string[] };
    const found = await Promise.all(
      nodegroups.map(async (name) => {
        const { nodegroup } = JSON.parse(await askMoto(made.moto, 'eks', `${all}/${name}`)) as { nodegroup: NodeGroup };
        return [/(floor|burst)/.exec(name)?.[0] ?? name, nodegroup] as const;
      }),
    );
    expect(new Set(found.map(([pool]) => pool)).size).toBe(found.length);
    return Object.fromEntries(found);
  };

  /** What the next `up` would do, as "OP TYPE NAME". */
  const plan = async (floor: object, burst: object = {}): Promise<string[]> => {
    made.stack.configure({
      gpuNodePools: [
        { ...ON_DEMAND, ...floor },
        { ...SPOT, ...burst },
      ],
    });
    const steps = await made.stack.changes();
    return steps.map(({ op, urn }) => `${op} ${urn.split('::').slice(-2).join(' ').split(':').at(-1)}`);
  };

  test(
    'up creates node groups, add-ons and their workloads without policy violations',
    async () => {
      const { stack, plane, moto } = made;
      const said = await stack.up('--policy-pack', 'policy');
      expectPolicyPackPassed(said);
      expect(await groups()).toMatchObject({
        floor: { amiType: 'AL2023_x86_64_NVIDIA', capacityType: 'ON_DEMAND', instanceTypes: ['g5.xlarge'] },
        burst: { amiType: 'AL2023_x86_64_NVIDIA', capacityType: 'SPOT', scalingConfig: { desiredSize: 1 } },
      });
      const { addons } = JSON.parse(await askMoto(moto, 'eks', '/clusters/triton-staging/addons')) as {
        addons: string[];
      };
      expect(addons.sort()).toEqual(['coredns', 'kube-proxy', 'vpc-cni']);
      const plugin = await plane.client.objects.list('apps/v1', 'DaemonSet', 'kube-system');
      expect(plugin.items).toMatchObject([{ status: { desiredNumberScheduled: 3, numberReady: 3 } }]);
      expect(await plane.readyPods('triton')).toHaveLength(2);
    },
    STEP_MS,
  );

  test('a second up changes nothing, and refresh finds no drift', () => expectNoChanges(made.stack), STEP_MS);

  test(
    'up changes size, labels and disk of a group in place',
    async () => {
      const { stack } = made;
      const steps = await plan(LARGER, { diskGiB: 300 });
      expect(steps.sort()).toEqual([
        'update LaunchTemplate gpu-burst',
        'update NodeGroup gpu-burst',
        'update NodeGroup gpu-floor',
      ]);
      await stack.up();
      expect(await groups()).toMatchObject({
        floor: { scalingConfig: { minSize: 2, maxSize: 2, desiredSize: 2 }, launchTemplate: { version: '1' } },
        burst: { launchTemplate: { version: '2' } },
      });
      await stack.up('--expect-no-changes');
    },
    STEP_MS,
  );

  test.each([
    ['its machines', { instanceTypes: ['g5.2xlarge'] }],
    ['its zones', { zones: ['us-east-1a'] }],
    ['its capacity type', { capacityTypes: ['spot'] }],
  ])(
    'up creates a new group before it deletes the old one if %s changed',
    async (_, change) => {
      const steps = await plan({ ...LARGER, ...change }, { diskGiB: 300 });
      const group = 'NodeGroup gpu-floor';
      const places = ['create-replacement', 'replace', 'delete-replaced'].map((op) => steps.indexOf(`${op} ${group}`));
      expect(places).not.toContain(-1);
      expect(places).toEqual([...places].sort((a, b) => a - b));
      expect(steps.filter((step) => /replace/.test(step) && !step.endsWith(group))).toEqual([]);
    },
    STEP_MS,
  );

  test(
    'destroy deletes Triton, node groups, cluster and network in this order, and leaves nothing',
    async () => {
      const { stack, moto } = made;
      const deleted = deletions(await stack.destroy());
      expectInOrder(deleted, [
        /:Deployment triton$/,
        /:NodeGroup gpu-floor/,
        /:Addon gpu-vpc-cni/,
        /^aws:eks:Cluster /,
        /:Vpc /,
      ]);
      expect(await stack.resources()).toEqual([]);
      expect(await leftovers(moto)).toEqual([]);
    },
    STEP_MS,
  );
});
