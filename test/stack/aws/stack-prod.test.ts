import { deletions, expectInOrder } from '../../support/aws-stack';
import { describeAwsStack, PACK, STEP_MS } from '../../support/aws-stack-tests';
import { askMoto } from '../../support/moto';
import { defineStubCrds } from '../../support/stub-crds';

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
    'stack rename replaces nothing if the stack file names the cluster',
    async () => {
      const { stack, plane } = made();
      const served = async (): Promise<unknown> => ({
        namespace: (await plane.client.core.readNamespace({ name: 'triton' })).metadata?.uid,
        pods: (await plane.readyPods('triton')).map(({ metadata }) => metadata?.name).sort(),
      });
      stack.configure({ clusterName: 'triton-prod' });
      await stack.up('--expect-no-changes');
      const before = await served();
      await stack.rename('prod-2');
      expect((await stack.plan()).filter((step) => /delete|replace|create/.test(step))).toEqual([]);
      await stack.up();
      expect(await served()).toEqual(before);
      expect((await stack.outputs())['clusterName']).toBe('triton-prod');
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

  test(
    'a destroy of what was unprotected in the state fails at a bucket with models, and leaves its key, its settings and its models usable',
    async () => {
      const { stack, moto } = made();
      const bucket = String((await stack.outputs())['modelRepository']).split('/')[2] ?? '';
      await askMoto(moto, 's3', `/${bucket}/models/net/1/model.pt`, {}, 'weights', 'PUT');
      await stack.pulumi('state', 'unprotect', '--all', '--yes', '--stack', stack.name);
      const body = JSON.stringify({ deletionProtection: false });
      await askMoto(moto, 'eks', '/clusters/triton-prod/update-config', {}, body);
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
