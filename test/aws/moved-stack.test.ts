import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { awsPlugins, whyNoAwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { runBlock, whyMissing } from '../support/doc-commands';
import { askMoto, testMoto, type Moto } from '../support/moto';
import { TestStack } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 5 * 60_000;
const PAGE = 'guides/moving-a-stack.md';
const PROJECT = 'vision-serving';
const VERSIONED = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';

/** One resource is enough: the commands do not depend on what a stack has. Its tag is a secret of the stack file. */
const PROGRAM = `const pulumi = require('@pulumi/pulumi');
const { Role } = require('@pulumi/aws/iam');
const config = new pulumi.Config();
new Role('pods', { assumeRolePolicy: '{}', tags: { key: config.requireSecretObject('s3').apply((s3) => s3.secretAccessKey), protect: config.require('protect') } });
`;

/** The commands of docs/guides/moving-a-stack.md, with a backend in S3 and a KMS key on a mock of AWS. */
describeUnless(whyNoAwsStack() ?? whyMissing('aws'), 'a stack that moves', () => {
  const scratch = new Scratch();
  let moto: Moto;
  let stack: TestStack;
  let id: string | undefined;

  const roleId = async (): Promise<string | undefined> =>
    (await stack.resources()).find(({ type }) => type === 'aws:iam/role:Role')?.id;

  beforeAll(async () => {
    moto = await testMoto(scratch);
    stack = await TestStack.create(scratch, 'prod', {
      plugins: await awsPlugins(),
      env: { ...moto.env, AWS_REGION: 'us-east-1' },
      secrets: { 's3.secretAccessKey': 'a-key-that-only-this-stack-has-1234' },
    });
    const project = readFileSync(join(stack.directory, 'Pulumi.yaml'), 'utf8');
    writeFileSync(join(stack.directory, 'Pulumi.yaml'), project.replace('infra/start.cjs', 'role.cjs'));
    writeFileSync(join(stack.directory, 'role.cjs'), PROGRAM);
    await stack.up();
    id = await roleId();
    expect(id).toMatch(/^triton-prod-pods-/);
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test(
    'from a folder to an S3 bucket and a KMS key replaces nothing, and needs the passphrase no more',
    async () => {
      const kms = (operation: string, body: object): Promise<string> => {
        const headers = { 'x-amz-target': `TrentService.${operation}`, 'content-type': 'application/x-amz-json-1.1' };
        return askMoto(moto, 'kms', '/', headers, JSON.stringify(body));
      };
      await askMoto(moto, 's3', '/state-bucket', {}, '', 'PUT');
      await askMoto(moto, 's3', '/state-bucket?versioning', {}, VERSIONED, 'PUT');
      const { KeyMetadata } = JSON.parse(await kms('CreateKey', {})) as { KeyMetadata: { KeyId: string } };
      await kms('CreateAlias', { AliasName: 'alias/state', TargetKeyId: KeyMetadata.KeyId });
      await stack.pulumi('login', stack.env['PULUMI_BACKEND_URL'] ?? '');
      // The variable would decide instead of "pulumi login".
      delete stack.env['PULUMI_BACKEND_URL'];
      await runBlock(PAGE, stack, 'STACK=prod # to another backend', {
        replace: {
          's3://STATE-BUCKET': "'s3://state-bucket?region=us-east-1&use_path_style=true'",
          'awskms:///alias/KEY': "'awskms:///alias/state?region=us-east-1'",
        },
      });
      delete stack.env['PULUMI_CONFIG_PASSPHRASE'];
      await stack.up('--expect-no-changes');
      expect(await roleId()).toBe(id);
      expect(await askMoto(moto, 's3', '/state-bucket?list-type=2')).toContain('stacks/triton-serving/prod.json');
    },
    STEP_MS,
  );

  test(
    'and whose state is deleted is restored from a version of the state',
    async () => {
      const state = { '/PROJECT/': '/triton-serving/', 'STATE-BUCKET': 'state-bucket' };
      await askMoto(moto, 's3', '/state-bucket/.pulumi/stacks/triton-serving/prod.json', {}, '', 'DELETE');
      await expect(stack.resources()).rejects.toThrow(/no stack named/);
      await runBlock('operations.md', stack, 'STATE=', { replace: state });
      await stack.up('--expect-no-changes');
      expect(await roleId()).toBe(id);
    },
    STEP_MS,
  );

  test(
    'to another project replaces nothing',
    async () => {
      await runBlock(PAGE, stack, 'STACK=prod # to another project', { replace: { 'NEW-PROJECT': PROJECT } });
      await stack.up('--expect-no-changes');
      expect(await roleId()).toBe(id);
      expect((await stack.resources()).map(({ urn }) => urn.split('::')[1])).toContain(PROJECT);
    },
    STEP_MS,
  );
});
