import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GITHUB_ISSUER } from '../../../infra/trust-subject';
import { exec } from '../../../src/core/exec';
import { paths } from '../../../src/core/paths';
import { awsPlugins, whyNoAwsStack } from '../../support/aws-stack';
import { describeUnless } from '../../support/describe-unless';
import { runBlock, whyMissing } from '../../support/doc-commands';
import { askMoto, createGithubProvider, leftovers, testMoto, type Moto } from '../../support/moto';
import { PUBLISHER } from '../../support/setting-values';
import { TestStack } from '../../support/stack';
import { Scratch } from '../../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 5 * 60_000;
const PAGE = 'components.md';
const PROJECT = 'vision-serving';
const VERSIONED = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';

/** One resource is enough: the commands do not depend on what a stack has. Its tag is a secret of the stack file. */
const getProgram = (name?: string): string => `const pulumi = require('@pulumi/pulumi');
const { Role } = require('@pulumi/aws/iam');
const config = new pulumi.Config();
new Role('pods', { name: ${JSON.stringify(name)}, assumeRolePolicy: '{}', tags: { key: config.requireSecretObject('s3').apply((s3) => s3.secretAccessKey), protect: config.require('protect') } });
`;

const URN = 'urn:pulumi:prod::triton-serving::aws:iam/role:Role::pods';

interface Checkpoint {
  checkpoint: {
    latest: { resources: { urn: string; id?: string; outputs?: object }[]; pending_operations?: object[] };
  };
}

/** Commands of the documents, with AWS's provider on a mock of AWS. */
describeUnless(whyNoAwsStack() ?? whyMissing('aws', 'jq'), 'a stack of one role', () => {
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
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test(
    'publisherIssuer is looked up: a preview names the command if the account has none, and creates none',
    async () => {
      const options = { plugins: await awsPlugins(), config: PUBLISHER, env: moto.env };
      const publishing = await TestStack.create(scratch, 'staging', options);
      const refusal = await publishing.preview().catch((error: unknown) => String(error));
      expect(refusal).toContain(`cannot find the IAM provider of ${GITHUB_ISSUER} in this account`);
      expect(refusal).toContain(
        `aws iam create-open-id-connect-provider --client-id-list sts.amazonaws.com --url ${GITHUB_ISSUER}`,
      );
      await createGithubProvider(moto);
      const created = (await publishing.changes()).map(({ urn }) => urn.split('::').slice(2).join(' '));
      const ofPublisher = created.filter((name) => name.includes('PublisherRole$'));
      expect(ofPublisher).toContainEqual(expect.stringMatching(/\$aws:iam\/role:Role publisher$/));
      expect(ofPublisher.filter((name) => name.includes('OpenIdConnectProvider'))).toEqual([]);
    },
    STEP_MS,
  );

  // docs/ci.md, "A job that was cut off".
  describe('AWS created a role, and Pulumi ended before it stored its id', () => {
    const setProgram = (name?: string): void => writeFileSync(join(stack.directory, 'role.cjs'), getProgram(name));

    /** Updates the stack, and changes its state as if Pulumi had ended before AWS answered. */
    const cutOff = async (): Promise<void> => {
      await stack.up();
      const state = JSON.parse(readFileSync(stack.stateFile, 'utf8')) as Checkpoint;
      const { latest } = state.checkpoint;
      const role = latest.resources.find(({ urn }) => urn === URN);
      latest.resources = latest.resources.filter((resource) => resource !== role);
      latest.pending_operations = [{ type: 'creating', resource: { ...role, id: undefined, outputs: undefined } }];
      writeFileSync(stack.stateFile, JSON.stringify(state));
      rmSync(`${stack.stateFile}.attrs`, { force: true }); // Checksums.
    };

    /** The output of the command in docs/ci.md that lists pending creates. */
    const pending = async (): Promise<string> => {
      const text = readFileSync(join(paths.root, 'docs', 'ci.md'), 'utf8');
      const command = /^pulumi stack export --stack prod \| jq .*$/m.exec(text)?.[0] ?? 'false';
      return (await exec('bash', ['-c', command], { cwd: stack.directory, env: stack.env })).stdout.trim();
    };

    const clear = () =>
      stack.pulumi('refresh', '--stack', 'prod', '--yes', '--skip-preview', '--clear-pending-creates');

    test(
      'with a fixed name: up fails because the resource exists, and succeeds after it is deleted',
      async () => {
        setProgram('pods-of-a-test');
        await cutOff();
        expect(await pending()).toBe(URN);
        await stack.pulumi('cancel', '--stack', 'prod', '--yes');
        await expect(stack.up('--refresh')).rejects.toThrow(/already exists/);
        expect(await leftovers(moto)).toContain('pods-of-a-test');
        const form = { 'content-type': 'application/x-www-form-urlencoded' };
        await askMoto(moto, 'iam', '/', form, 'Action=DeleteRole&RoleName=pods-of-a-test&Version=2010-05-08');
        await stack.up('--refresh');
      },
      STEP_MS,
    );

    test(
      'with a generated name: up succeeds, and leaves the first resource',
      async () => {
        await clear();
        expect(await pending()).toBe('');
        setProgram();
        await cutOff();
        await stack.up('--refresh');
        // Pulumi keeps the name of a resource that it updates, so the first role still has the fixed one.
        const roles = (await leftovers(moto)).filter((name) => name.includes('pods-'));
        expect(roles.sort()).toEqual(['pods-of-a-test', expect.stringMatching(/^triton-prod-pods-[0-9a-f]{7}$/)]);
        await clear();
        id = await roleId();
      },
      STEP_MS,
    );
  });

  test(
    'moves from a folder to an S3 bucket and a KMS key without a replacement, and needs the passphrase no more',
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
    'is restored from a version of its state, which was deleted',
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
    'moves to another project without a replacement',
    async () => {
      await runBlock(PAGE, stack, 'STACK=prod # to another project', { replace: { 'NEW-PROJECT': PROJECT } });
      await stack.up('--expect-no-changes');
      expect(await roleId()).toBe(id);
      expect((await stack.resources()).map(({ urn }) => urn.split('::')[1])).toContain(PROJECT);
    },
    STEP_MS,
  );
});
