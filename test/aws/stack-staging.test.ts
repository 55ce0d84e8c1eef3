import { deletions, expectInOrder, expectPolicyPackPassed, refusedRequests } from '../support/aws-stack';
import { describeAwsStack, PACK, STEP_MS } from '../support/aws-stack-tests';
import { leftovers } from '../support/moto';

describeAwsStack('staging', (made) => {
  test(
    'a promoter role of another account changes only the policies of bucket and key',
    async () => {
      const { stack } = made();
      stack.configure({ bucketReaders: ['arn:aws:iam::444455556666:role/deploy-prod'] });
      expect((await stack.plan()).sort()).toEqual([
        'update aws:kms/key:Key',
        'update aws:s3/bucketPolicy:BucketPolicy',
      ]);
      expectPolicyPackPassed(await stack.up(...PACK));
      await stack.up('--expect-no-changes');
    },
    STEP_MS,
  );

  test(
    'destroy deletes Triton, nodes, cluster and network in this order, and leaves only the provider of publishers',
    async () => {
      const { stack, moto } = made();
      refusedRequests(made(), 'deploy', 'old');
      expectInOrder(deletions(await stack.destroy()), [
        /:Deployment /,
        /:NodePool /,
        /:NodeClass /,
        /^aws:eks:Cluster /,
        /:NatGateway /,
        /:Vpc /,
      ]);
      expect(await stack.resources()).toEqual([]);
      expect(refusedRequests(made(), 'deploy', 'old')).toEqual([]);
      // Other stacks and repositories of the account use it.
      expect(await leftovers(moto)).toEqual([expect.stringContaining('/token.actions.githubusercontent.com')]);
    },
    STEP_MS,
  );
});
