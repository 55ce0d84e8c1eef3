import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { exec } from '../../src/core/exec';
import { parseStackOutputs } from '../../src/cluster/stack-outputs';
import { paths } from '../../src/core/paths';
import { awsPlugins, whyNoAwsStack } from '../support/aws-stack';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { NpmRegistry } from '../support/npm-registry';
import { programEnvironment } from '../support/pulumi';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;

const TEMPLATE = join(paths.root, 'examples', 'new-project');

const CONFIG = {
  modelRepository: 's3://models-bucket/voices',
  region: 'eu-west-1',
  roleArn: 'arn:aws:iam::111122223333:role/voices',
};

describeUnless(whyNoAwsStack(), 'a project that "pulumi new" makes', () => {
  const scratch = new Scratch();
  const project = join(scratch.directory, 'voices');
  let plane: ControlPlane;
  let pulumi: (...args: string[]) => Promise<string>;

  beforeAll(async () => {
    plane = await ControlPlane.start(scratch);
    for (const index of [0, 1]) await plane.addGpuNode(`gpu-${index}`);
    const registry = await NpmRegistry.start(scratch);
    await registry.run(paths.root, 'npm', 'publish');
    const { program, env } = await programEnvironment(scratch, {
      // Pulumi installs the plugins of all npm packages, here also the one of AWS.
      plugins: await awsPlugins(),
      env: { ...registry.env, KUBECONFIG: plane.access.kubeconfigFile() },
    });
    mkdirSync(project);
    pulumi = async (...args) =>
      (await exec(program, ['--non-interactive', '--color', 'never', ...args], { cwd: project, env })).stdout;
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test(
    'has the npm package, previews and creates its objects',
    async () => {
      const config = Object.entries(CONFIG).flatMap(([key, value]) => ['--config', `${key}=${value}`]);
      await pulumi('new', TEMPLATE, '--name', 'voices', '--stack', 'dev', '--yes', ...config);
      expect(load(readFileSync(join(project, 'Pulumi.dev.yaml'), 'utf8'))).toMatchObject({
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
