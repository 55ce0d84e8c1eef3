import { deletions, expectInOrder, expectPolicyPackPassed, refusedRequests } from '../../support/aws-stack';
import { describeAwsStack, PACK, STEP_MS } from '../../support/aws-stack-tests';
import { leftovers } from '../../support/moto';

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
    'another clusterName creates the new cluster before anything of the old one is deleted',
    async () => {
      const { stack } = made();
      const before = stack.configure({ clusterName: 'triton-second' });
      const steps = await stack.plan();
      stack.configure({ ...before, vpcCidr: '10.64.0.0/16' });
      expect(await stack.plan()).toContain('create-replacement aws:ec2/eip:Eip');
      stack.configure({ vpcCidr: undefined });
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
    'destroy deletes Triton, nodes, cluster and network in this order, and leaves only the provider of publishers',
    async () => {
      const { stack, moto } = made();
      refusedRequests(made(), 'deploy', 'old');
      expect((await leftovers(moto)).length).toBeGreaterThan(10);
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
