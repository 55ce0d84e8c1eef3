import { awsStack, HERE, whyNoAwsStack, type AwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { whyMissing } from '../support/doc-commands';
import { expectNoChanges, recoverLostState } from '../support/lost-state';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 20 * 60_000;

/** All AWS resources of a stack: Auto Mode and a managed node group, protected as in prod. */
const CONFIG = {
  publicAccessCidrs: [HERE],
  protect: true,
  bucketForceDestroy: false,
  clusterAdmins: ['arn:aws:iam::123456789012:role/admins'],
  gpuNodePools: [
    { name: 'a10g', instanceTypes: ['g5.xlarge'], maximumGpus: 3 },
    { name: 'fixed', mechanism: 'managed-node-group', instanceTypes: ['g5.xlarge'], minimumNodes: 1, maximumNodes: 1 },
  ],
};

describeUnless(
  whyNoAwsStack() ?? whyMissing('aws', 'jq', 'kubectl'),
  'a stack in AWS whose Pulumi state is lost, with the real AWS provider on a mock of AWS',
  () => {
    const scratch = new Scratch();
    let made: AwsStack;

    beforeAll(async () => {
      made = await awsStack(scratch, 'staging', { config: CONFIG });
      await made.stack.up();
    }, BUILD_MS);
    afterAll(() => scratch.clean());

    /** URN -> id and protection of all resources that have an id. Ids of providers are random. */
    const identities = async (): Promise<Record<string, unknown>> =>
      Object.fromEntries(
        (await made.stack.resources())
          .filter(({ id, type }) => id !== undefined && !type.startsWith('pulumi:providers:'))
          .map(({ urn, id, protect = false }) => [urn, { id, protect }]),
      );

    test(
      'the commands of the runbook import all resources, and "pulumi up" replaces none',
      async () => {
        const { stack, plane } = made;
        const before = { identities: await identities(), outputs: await stack.outputs() };
        await recoverLostState(stack, plane, scratch);
        expect({ identities: await identities(), outputs: await stack.outputs() }).toEqual(before);
        await expectNoChanges(stack);
      },
      STEP_MS,
    );
  },
);
