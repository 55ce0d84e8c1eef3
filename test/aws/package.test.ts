import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { awsPlugins, whyNoAwsStack } from '../support/aws-stack';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { fences } from '../support/markdown';
import { testMoto } from '../support/moto';
import { packageEnvironment, PackageProgram } from '../support/package-program';
import type { StateResource } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;

const PROVIDER = 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/ABCD';

describeUnless(whyNoAwsStack(), 'the package for other languages on a mock of AWS', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());

  test(
    'the Python program of docs/guides/components.md creates replicas, their role and their bucket, and then changes nothing',
    async () => {
      const plane = await ControlPlane.start(scratch);
      for (const index of [0, 1]) await plane.addGpuNode(`gpu-${index}`);
      const moto = await testMoto(scratch, plane.access);
      const more = { ...moto.env, KUBECONFIG: plane.access.kubeconfigFile() };
      const env = await packageEnvironment(scratch, ['python'], { plugins: await awsPlugins(), env: more });

      const guide = fences(readFileSync(join(paths.root, 'docs', 'guides', 'components.md'), 'utf8'));
      const written = guide.find(({ text }) => text.startsWith('from pulumi_triton_serving'))?.text ?? '';
      const text = `oidc_provider_arn = "${PROVIDER}"\n${written.replace('prefix="faces")', 'prefix="faces", protect=False)')}`;
      const program = await PackageProgram.copy('python', 'python', join(scratch.directory, 'python'), env);
      program.edit(() => text, '__main__.py');
      const stack = ['--stack', program.stack];
      await program.pulumi('config', 'set', ...stack, 'aws:region', 'us-east-1');
      await program.pulumi('up', ...stack, '--yes');
      await program.pulumi('up', ...stack, '--yes', '--skip-preview', '--expect-no-changes');

      const { deployment } = await program.json<{ deployment: { resources: StateResource[] } }>('stack', 'export');
      const inputs = (type: string): string =>
        JSON.stringify(deployment.resources.filter((one) => one.type === type).map((one) => one.inputs));
      expect(inputs('aws:s3/bucket:Bucket')).toContain('"forceDestroy":true');
      expect(inputs('aws:iam/role:Role')).toContain('system:serviceaccount:faces:faces');
      expect(inputs('kubernetes:apps/v1:Deployment')).toMatch(/s3:\/\/faces-[0-9a-f]{7}\/faces/);
      await program.pulumi('destroy', ...stack, '--yes');
    },
    BUILD_MS,
  );
});
