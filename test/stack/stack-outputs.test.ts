import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { readStackOutputs } from '../../src/publish/cluster/stack-outputs';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { testPulumi, type TestPulumi } from '../support/pulumi';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 30 * 60_000;

const BUCKET = { modelRepository: 's3://bucket/models', region: 'eu-central-1' };
const KUBECONFIG = { apiVersion: 'v1', users: [{ name: 'me', user: { token: 'very-secret-token' } }] };

describeUnless(whyNoGo(['pulumi']), 'outputs of a stack', () => {
  const scratch = new Scratch();
  const before = process.env;
  let pulumi: TestPulumi;

  beforeAll(async () => {
    pulumi = await testPulumi(scratch);
    await pulumi.createStack(
      'prod',
      { ...BUCKET, namespace: 'serving', podSelector: 'app=triton' },
      { kubeconfig: KUBECONFIG },
    );
  }, BUILD_MS);
  beforeEach(() => {
    process.env = { ...pulumi.env };
  });
  afterAll(async () => {
    process.env = before;
    await scratch.clean();
  });

  const failure = async (stack: string, cwd = pulumi.directory): Promise<{ message: string; hint?: string }> => {
    const error = await readStackOutputs(stack, cwd).catch((caught: unknown) => caught as Error);
    expect(error).toMatchObject({ name: 'UserError' });
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('very-secret');
    return error as Error;
  };

  test('outputs of a stack with a cluster, whose kubeconfig is secret in the state', async () => {
    expect(await readStackOutputs('prod', pulumi.directory)).toEqual({
      ...BUCKET,
      cluster: { kubeconfig: JSON.stringify(KUBECONFIG), namespace: 'serving', podSelector: 'app=triton' },
    });
  });

  test('an unknown stack is reported', async () => {
    const { message, hint } = await failure('dev');
    expect(message).toMatch(/^stack dev does not exist: no stack named 'dev' found/);
    expect(hint).toBe('"pulumi stack ls" lists the stacks; "pulumi stack init dev" creates this one');
  });

  test('a missing login to Pulumi is reported', async () => {
    delete process.env['PULUMI_BACKEND_URL'];
    expect(await failure('prod')).toMatchObject({
      message: expect.stringMatching(/^pulumi is not logged in to the backend of stack prod/) as string,
      hint: 'run "pulumi login", or set PULUMI_BACKEND_URL',
    });
  });

  test('a missing or wrong passphrase is reported', async () => {
    process.env['PULUMI_CONFIG_PASSPHRASE'] = 'another';
    expect(await failure('prod')).toMatchObject({
      message: expect.stringMatching(/^cannot decrypt the secrets of stack prod: .*passphrase/) as string,
    });
    delete process.env['PULUMI_CONFIG_PASSPHRASE'];
    expect(await failure('prod')).toMatchObject({
      message: expect.stringMatching(/^cannot decrypt the secrets of stack prod: .*passphrase/) as string,
    });
  });

  test('a missing Pulumi CLI is reported', async () => {
    process.env['PATH'] = '/nowhere';
    expect(await failure('prod')).toMatchObject({
      message: 'pulumi is not on PATH',
      hint: expect.stringMatching(/--bucket s3:\/\/NAME\/PREFIX \(promote: --from and --to\)$/) as string,
    });
  });

  test('a missing folder and a folder without a Pulumi program are reported', async () => {
    const nowhere = join(scratch.directory, 'nowhere');
    expect((await failure('prod', nowhere)).message).toBe(`cannot read stack prod: folder ${nowhere} does not exist`);
    mkdirSync(nowhere);
    expect((await failure('prod', nowhere)).message).toMatch(/contains no Pulumi program/);
  });
});
