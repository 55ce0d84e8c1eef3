import { createServer } from 'node:http';
import { join } from 'node:path';
import { checksumOfBytes, S3Store } from '../../src/s3/store';
import { ACCOUNT_KEYS, awsEnvironments, KEYS, startCloud, type Cloud, startConnectProxy } from '../support/aws-cloud';
import { listenOnLoopback } from '../support/loopback';
import { writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

/** Our commands on a machine of a company: AWS answers under its own names, behind a proxy with a password. */

const scratch = new Scratch();
const repository = join(scratch.directory, 'repository');
let cloud: Cloud;

const BUCKETS = { 'models-eu': 'eu-central-1', 'models-us': 'us-west-2' };

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  cloud = await startCloud(scratch, endpoint);
  for (const [name, region] of Object.entries(BUCKETS)) {
    await openBucket(scratch, endpoint, name);
    cloud.buckets.set(name, { region });
  }
  writeRepository(repository, { 'a/config.pbtxt': 'backend: "anything"\n', 'a/1/weights.bin': 'a' });
  await publish('models-eu', { ...KEYS, AWS_REGION: 'eu-central-1' });
});
afterAll(() => scratch.clean());
beforeEach(() => {
  cloud.sites.clear();
  cloud.proxy.hosts.length = 0;
});

/** Runs a command that must succeed, and prints nothing but its result. */
async function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Finished> {
  const finished = await runCommandLine(command, args, { ...cloud.env, ...env });
  expect(finished).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/Warning|error/) as string });
  return finished;
}

const publish = (bucket: string, env: NodeJS.ProcessEnv): Promise<Finished> =>
  run('sync-models', ['--repo', repository, '--bucket', `s3://${bucket}/models`, '--untried'], env);

const list = (bucket: string, env: NodeJS.ProcessEnv, ...flags: string[]): Promise<Finished> =>
  run('releases', ['--bucket', `s3://${bucket}/models`, ...flags], env);

const { file, profile, role, sso, webIdentity } = awsEnvironments(scratch);
const IN_EUROPE = 'region = eu-central-1';

/** The metadata of a container or a machine, which a proxy must not see. */
async function metadata(): Promise<string> {
  const { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: Token } = cloud.issued.sts;
  const Expiration = new Date(Date.now() + 3_600_000).toISOString();
  const server = createServer(({ url }, reply) => {
    if (url === '/latest/api/token') return void reply.end('metadata-token');
    if (url === '/latest/meta-data/iam/security-credentials/') return void reply.end('publisher');
    reply.end(JSON.stringify({ Code: 'Success', AccessKeyId, SecretAccessKey, Token, Expiration }));
  });
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  return `http://127.0.0.1:${port}`;
}

const S3_EU = 'models-eu.s3.eu-central-1.amazonaws.com in eu-central-1';

test.each<[string, () => NodeJS.ProcessEnv | Promise<NodeJS.ProcessEnv>, string[]]>([
  ['access keys', () => ({ ...KEYS, AWS_REGION: 'eu-central-1' }), []],
  ['a profile with a role', () => role('publisher', IN_EUROPE), ['sts.eu-central-1.amazonaws.com in eu-central-1']],
  ['IAM Identity Center', () => sso('publisher', 3_600_000), ['portal.sso.us-west-2.amazonaws.com in none']],
  [
    'a web identity',
    () => ({ ...webIdentity('publisher', file('token')), AWS_REGION: 'eu-central-1' }),
    ['sts.eu-central-1.amazonaws.com in none'],
  ],
  [
    'a container',
    async () => ({ AWS_CONTAINER_CREDENTIALS_FULL_URI: await metadata(), AWS_REGION: 'eu-central-1' }),
    [],
  ],
  [
    'a machine',
    async () => ({
      AWS_EC2_METADATA_SERVICE_ENDPOINT: await metadata(),
      AWS_EC2_METADATA_DISABLED: 'false',
      AWS_REGION: 'eu-central-1',
    }),
    [],
  ],
])('releases reads the bucket with the credentials of %s', async (_, environment, others) => {
  const { stdout } = await list('models-eu', await environment());
  expect(stdout).toMatch(/sync-models/);
  expect([...cloud.sites].sort()).toEqual([S3_EU, ...others].sort());
  expect(new Set(cloud.proxy.hosts)).toEqual(new Set([...cloud.sites].map((site) => site.split(' ')[0])));
});

test('the region of --region counts for the sign-in too', async () => {
  await list('models-eu', role('publisher'), '--region', 'eu-central-1');
  expect([...cloud.sites].sort()).toEqual([S3_EU, 'sts.eu-central-1.amazonaws.com in eu-central-1']);
});

test.each([301, 307, 'AuthorizationHeaderMalformed', 'without region'] as const)(
  'a bucket in another region is found if S3 redirects with %s',
  async (redirect) => {
    cloud.buckets.set('models-eu', { region: 'eu-central-1', redirect });
    await list('models-eu', KEYS);
    expect([...cloud.sites]).toEqual(['models-eu.s3.us-east-1.amazonaws.com in us-east-1', S3_EU]);
  },
);

test('a bucket in another region is found if S3 answers HEAD requests with 400', async () => {
  cloud.buckets.set('models-eu', { region: 'eu-central-1', redirect: 400 });
  const { env } = process;
  process.env = { ...env, ...cloud.env, AWS_CA_BUNDLE: cloud.authority.caFile };
  const store = new S3Store({ bucket: 'models-eu', region: 'us-west-2', credentials: ACCOUNT_KEYS });
  process.env = env;
  scratch.defer(() => store.close());
  const all = await Promise.all(['a', 'b', 'c'].map(() => store.checksum('models/a/1/weights.bin', 1)));
  expect(all).toEqual(Array(3).fill(checksumOfBytes(Buffer.from('a'))));
  expect([...cloud.sites]).toEqual(['models-eu.s3.us-west-2.amazonaws.com in us-west-2', S3_EU]);
});

test.each([
  [{ AWS_USE_FIPS_ENDPOINT: 'true' }, 'models-us.s3-fips.us-west-2.amazonaws.com'],
  [{ AWS_USE_DUALSTACK_ENDPOINT: 'true' }, 'models-us.s3.dualstack.us-west-2.amazonaws.com'],
])('with %j requests go to %s', async (variables, host) => {
  await list('models-us', { ...KEYS, ...variables, AWS_REGION: 'us-west-2' });
  expect([...cloud.sites]).toEqual([`${host} in us-west-2`]);
});

test('a session that S3 rejects as expired is renewed', async () => {
  const keys = { Version: 1, AccessKeyId: 'ASIAEXPIRED', SecretAccessKey: 'old-secret-key', SessionToken: 'old' };
  const { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken } = cloud.issued.sts;
  const renewed = { Version: 1, AccessKeyId, SecretAccessKey, SessionToken };
  const mark = join(scratch.directory, 'signed-in');
  const program = file(
    `#!/bin/sh\nif [ -e '${mark}' ]; then echo '${JSON.stringify(renewed)}'; exit; fi\ntouch '${mark}'\necho '${JSON.stringify(keys)}'\n`,
    0o755,
  );
  const { AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey, SessionToken: sessionToken } = keys;
  cloud.identities.set(accessKeyId, { accessKeyId, secretAccessKey, sessionToken, expired: true });
  await list('models-eu', profile(`${IN_EUROPE}\ncredential_process = ${program}`));
});

test('TLS without a proxy, with the authority in AWS_CA_BUNDLE and the region in the address of the endpoint', async () => {
  const env = { ...KEYS, HTTPS_PROXY: '', NODE_EXTRA_CA_CERTS: '', AWS_CA_BUNDLE: cloud.authority.caFile };
  const endpoint = `https://127.0.0.1:${cloud.port}`;
  cloud.buckets.set('models-eu', { region: 'us-east-1' });
  await list('models-eu', env, '--endpoint-url', endpoint);
  cloud.buckets.set('models-eu', { region: 'eu-central-1' });
  expect([...cloud.sites]).toEqual(['127.0.0.1 in us-east-1']);
});

test('a proxy that speaks TLS', async () => {
  const proxy = await startConnectProxy(cloud.port, 'user:password', undefined, cloud.authority.loopback);
  scratch.defer(() => proxy.stop());
  const env = { ...role('publisher', IN_EUROPE), HTTPS_PROXY: `https://user:password@localhost:${proxy.port}` };
  await list('models-eu', env);
  expect(new Set(proxy.hosts)).toEqual(
    new Set(['sts.eu-central-1.amazonaws.com', 'models-eu.s3.eu-central-1.amazonaws.com']),
  );
});

test('a proxy that fails once is asked again', async () => {
  const proxy = await startConnectProxy(cloud.port, undefined, (_, count) => (count === 1 ? 502 : undefined));
  scratch.defer(() => proxy.stop());
  await list('models-eu', { ...KEYS, AWS_REGION: 'eu-central-1', HTTPS_PROXY: `127.0.0.1:${proxy.port}` });
  expect(proxy.hosts.length).toBeGreaterThan(1);
});

test('promote copies between buckets in two regions with one AWS_REGION', async () => {
  const args = ['--from', 's3://models-eu/models', '--to', 's3://models-us/models', '--untried'];
  await run('promote', args, { ...KEYS, AWS_REGION: 'eu-central-1' });
  expect([...cloud.sites].sort()).toEqual([
    S3_EU,
    'models-us.s3.eu-central-1.amazonaws.com in eu-central-1',
    'models-us.s3.us-west-2.amazonaws.com in us-west-2',
  ]);
  expect((await list('models-us', { ...KEYS, AWS_REGION: 'us-west-2' })).stdout).toMatch(/promoted/);
});
