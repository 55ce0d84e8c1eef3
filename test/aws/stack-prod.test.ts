import { describeAwsStack, PACK, STEP_MS } from '../support/aws-stack-tests';
import { defineStubCrds } from '../support/stub-crds';

describeAwsStack('prod', (made) => {
  test(
    'up names the missing kinds of optional features of prod, and succeeds once they exist',
    async () => {
      const { stack, plane } = made();
      stack.configure({
        autoscaling: { minReplicas: 3, maxReplicas: 12 },
        monitoring: { namespace: 'monitoring' },
      });
      const refusal = stack.up().catch((error: unknown) => String(error));
      expect(await refusal).toMatch(
        /with kind (keda\.sh|monitoring\.coreos\.com)\/\S+ failed because [^]*Verify that any required CRDs have been created/,
      );
      await defineStubCrds(plane, ['keda.sh', 'monitoring.coreos.com']);
      await stack.up(...PACK);
      await stack.up('--expect-no-changes');
    },
    STEP_MS,
  );

  test(
    'destroy is refused because irreplaceable resources are protected',
    async () => {
      const { stack, plane } = made();
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
});
