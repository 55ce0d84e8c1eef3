import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../../../src/core/exec';
import { paths } from '../../../src/core/paths';
import { describeUnless } from '../../support/describe-unless';
import { awsPlugins, whyNoAwsStack } from '../../support/aws-stack';
import { askMoto, testMoto } from '../../support/moto';
import { programEnvironment } from '../../support/pulumi';
import { Scratch } from '../../support/temp-dir';

const TEST_MS = 15 * 60_000;
const LINKED = ['docs', 'node_modules', 'package.json', 'src', 'infra/iam', 'infra/storage', 'infra/trust-subject.ts'];

/** The bootstrap program with AWS's provider on a mock of AWS, in a copy, because Pulumi writes the stack file beside it. */
describeUnless(whyNoAwsStack(), 'the bootstrap stack', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());

  test(
    'is created without later changes, and another stack keeps its state and its secrets there',
    async () => {
      const project = join(scratch.directory, 'project');
      const directory = join(project, 'infra', 'bootstrap');
      cpSync(join(paths.root, 'infra', 'bootstrap'), directory, { recursive: true });
      for (const path of LINKED) symlinkSync(join(paths.root, path), join(project, path));
      const moto = await testMoto(scratch);
      const { program, env } = await programEnvironment(scratch, {
        plugins: await awsPlugins(),
        env: { ...moto.env, AWS_REGION: 'us-east-1' },
      });
      const pulumi = async (line: string, cwd = directory, changes: NodeJS.ProcessEnv = {}): Promise<string> => {
        const flags = ['--non-interactive', '--color', 'never'];
        return (await exec(program, [...line.split(' '), ...flags], { cwd, env: { ...env, ...changes } })).stdout;
      };
      await pulumi('stack init staging');
      const values = {
        'aws:region': 'us-east-1',
        repository: 'acme@1/serving@2',
        previews: true,
      };
      for (const [key, value] of Object.entries(values)) await pulumi(`config set ${key} ${value}`);
      await expect(pulumi('up --yes --skip-preview')).rejects.toThrow();
      expect(await pulumi('stack export')).not.toContain('aws:s3/bucket:Bucket');
      await pulumi('config set createOidcProvider true');
      await pulumi('up --yes --skip-preview');
      await pulumi('preview --refresh --expect-no-changes');
      const outputs = JSON.parse(await pulumi('stack output --json')) as Record<string, string>;
      expect(outputs).toMatchObject({
        deployRoleArn: 'arn:aws:iam::123456789012:role/ci-triton-staging-deploy',
        driftRoleArn: 'arn:aws:iam::123456789012:role/ci-triton-staging-drift',
        previewRoleArn: 'arn:aws:iam::123456789012:role/ci-triton-staging-preview',
      });

      const { backendUrl = '', secretsProvider = '' } = outputs;
      const serving = join(scratch.directory, 'serving');
      mkdirSync(serving);
      writeFileSync(join(serving, 'Pulumi.yaml'), 'name: triton-serving\nruntime: nodejs\n');
      // The mock has no host names for buckets.
      const elsewhere = {
        PULUMI_BACKEND_URL: `${backendUrl}&use_path_style=true`,
        PULUMI_CONFIG_PASSPHRASE: undefined,
      };
      await pulumi(`stack init staging --secrets-provider ${secretsProvider}`, serving, elsewhere);
      await pulumi('config set --stack staging --secret --path s3.secretAccessKey hidden', serving, elsewhere);
      expect(await pulumi('config get --stack staging --path s3.secretAccessKey', serving, elsewhere)).toBe('hidden\n');
      const bucket = new URL(backendUrl).host;
      expect(await askMoto(moto, 's3', `/${bucket}?list-type=2`)).toContain('stacks/triton-serving/staging.json');
    },
    TEST_MS,
  );
});
