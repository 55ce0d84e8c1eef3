import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { parseStackOutputs } from '../../../src/publish/cluster/stack-outputs';
import { exec } from '../../../src/core/exec';
import { paths } from '../../../src/core/paths';
import { awsPlugins, whyNoAwsStack } from '../../support/aws-stack';
import { ControlPlane } from '../../support/control-plane';
import { describeUnless } from '../../support/describe-unless';
import { fences } from '../../support/markdown';
import { testMoto } from '../../support/moto';
import { NpmRegistry } from '../../support/npm-registry';
import { packageEnvironment, PackageProgram } from '../../support/package-program';
import { programEnvironment } from '../../support/pulumi';
import type { StateResource } from '../../support/stack';
import { Scratch } from '../../support/temp-dir';

const BUILD_MS = 60 * 60_000;

const PROVIDER = 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/ABCD';

const CONFIG = {
  modelRepository: 's3://models-bucket/voices',
  region: 'eu-west-1',
  roleArn: 'arn:aws:iam::111122223333:role/voices',
};

describeUnless(whyNoAwsStack(), 'programs of other projects, with the provider of AWS', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    plane = await ControlPlane.start(scratch);
    for (const index of [0, 1]) await plane.addGpuNode(`gpu-${index}`);
    const moto = await testMoto(scratch, plane.access);
    env = { ...moto.env, KUBECONFIG: plane.access.kubeconfigFile() };
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test(
    'the Python program of docs/components.md creates replicas, their role and their bucket, and then changes nothing',
    async () => {
      const own = await packageEnvironment(scratch, ['python'], { plugins: await awsPlugins(), env });
      const guide = fences(readFileSync(join(paths.root, 'docs', 'components.md'), 'utf8'));
      const written = guide.find(({ text }) => text.startsWith('from pulumi_triton_serving'))?.text ?? '';
      const text = `oidc_provider_arn = "${PROVIDER}"\n${written.replace('prefix="faces")', 'prefix="faces", protect=False)')}`;
      const program = await PackageProgram.copy('python', 'python', join(scratch.directory, 'python'), own);
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

  test(
    'a project that "pulumi new" makes has the npm package, previews and creates its objects',
    async () => {
      const registry = await NpmRegistry.start(scratch);
      // Pulumi installs the plugins of all npm packages, here also the one of AWS.
      const { program, env: own } = await programEnvironment(scratch, {
        plugins: await awsPlugins(),
        env: { ...registry.env, ...env },
      });
      const cwd = join(scratch.directory, 'voices');
      mkdirSync(cwd);
      const pulumi = async (...args: string[]): Promise<string> =>
        (await exec(program, ['--non-interactive', '--color', 'never', ...args], { cwd, env: own })).stdout;
      const config = Object.entries(CONFIG).flatMap(([key, value]) => ['--config', `${key}=${value}`]);
      const template = join(paths.root, 'examples', 'new-project');
      await pulumi('new', template, '--name', 'voices', '--stack', 'dev', '--yes', ...config);
      expect(load(readFileSync(join(cwd, 'Pulumi.dev.yaml'), 'utf8'))).toMatchObject({
        config: { 'voices:roleArn': CONFIG.roleArn, 'voices:replicas': '2' },
      });
      expect(await pulumi('preview', '--stack', 'dev')).toMatch(/kubernetes:apps\/v1:Deployment +triton +create/);
      await pulumi('up', '--stack', 'dev', '--yes', '--skip-preview');
      expect(await plane.readyPods('triton')).toHaveLength(2);
      const outputs = JSON.parse(
        await pulumi('stack', 'output', '--json', '--show-secrets', '--stack', 'dev'),
      ) as object;
      expect(outputs).toMatchObject({ serviceUrl: 'http://triton.triton.svc:8000' });
      expect(parseStackOutputs('dev', { ...outputs })).toMatchObject({
        modelRepository: CONFIG.modelRepository,
        region: CONFIG.region,
      });
      await pulumi('up', '--stack', 'dev', '--yes', '--skip-preview', '--expect-no-changes');
      await pulumi('destroy', '--stack', 'dev', '--yes');
    },
    BUILD_MS,
  );
});
