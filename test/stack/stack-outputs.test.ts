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

  test.each<[string, stack: string, change: Record<string, string>, RegExp]>([
    ['an unknown stack', 'dev', {}, /^cannot read the outputs of stack dev in .*: no stack named 'dev' found/],
    ['a missing login to Pulumi', 'prod', { PULUMI_BACKEND_URL: '' }, /PULUMI_ACCESS_TOKEN|pulumi login/],
    ['a missing passphrase', 'prod', { PULUMI_CONFIG_PASSPHRASE: '' }, /passphrase/],
    ['a wrong passphrase', 'prod', { PULUMI_CONFIG_PASSPHRASE: 'another' }, /passphrase/],
  ])('%s is reported as Pulumi reports it', async (_, stack, change, message) => {
    Object.assign(process.env, change);
    for (const [name, value] of Object.entries(change)) if (value === '') Reflect.deleteProperty(process.env, name);
    expect((await failure(stack)).message).toMatch(message);
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
    expect((await failure('prod', nowhere)).message).toMatch(/no Pulumi.yaml|fully qualified name/);
  });
});
