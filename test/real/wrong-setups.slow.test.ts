import { readFileSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { forEachLimited } from '../../src/core/concurrency';
import { paths } from '../../src/core/paths';
import {
  ACCOUNT_KEYS,
  awsEnvironments,
  KEYS,
  NO_KEYS,
  PROXY_LOGIN,
  startCloud,
  type AwsError,
  type Cloud,
  startConnectProxy,
} from '../support/aws-cloud';
import { listenOnLoopback } from '../support/loopback';
import { writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

/**
 * Each wrong set-up ends a real command with one message that names the cause and the next step. The messages are in
 * test/data/wrong-setups.json, which UPDATE_DOCS=1 updates.
 */

const EXPECTED = join(paths.root, 'test', 'data', 'wrong-setups.json');
/** Commands at a time: most wait for a connection. */
const AT_A_TIME = 4;

const scratch = new Scratch();
const repository = join(scratch.directory, 'repository');
let cloud: Cloud;

interface Setup {
  env?: NodeJS.ProcessEnv;
  /** The bucket's answer, which is that of a policy or of another account. */
  refuse?: AwsError;
  /** The bucket; default: one of this set-up. */
  bucket?: string;
  flags?: string[];
  /** Publish, because the set-up concerns writes; default: list the releases. */
  writes?: true;
  /** Refusals of STS and SSO, by role. */
  roles?: Record<string, AwsError>;
}

const { file, profile, role, sso, webIdentity } = awsEnvironments(scratch);
const SECRETS = [
  PROXY_LOGIN.password,
  encodeURIComponent(PROXY_LOGIN.password),
  ACCOUNT_KEYS.secretAccessKey,
  'wrong-secret-key',
  'sts-secret-key',
  'sso-secret-key',
  'session-token',
  'bearer-secret',
  'program-secret',
  'odd#password',
];

const denied = (message: string): AwsError => ({ status: 403, code: 'AccessDenied', message });
const USER = 'User: arn:aws:iam::123456789012:user/ci is not authorized to perform:';

async function portOf(server: Server): Promise<number> {
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  return port;
}

/** A proxy that answers every request for a tunnel with this status. */
async function proxy(status: number | 'silent'): Promise<NodeJS.ProcessEnv> {
  const started = await startConnectProxy(cloud.port, undefined, () => status);
  scratch.defer(() => started.stop());
  return { HTTPS_PROXY: `http://127.0.0.1:${started.port}` };
}

async function setUps(): Promise<Record<string, Setup>> {
  const silent = await portOf(createServer((socket) => socket.on('error', () => undefined)));
  const page = await portOf(
    createHttpServer((_, reply) => reply.writeHead(200, { 'content-type': 'text/html' }).end('<html>Welcome</html>')),
  );
  const failing = await portOf(createHttpServer((_, reply) => reply.writeHead(403).end('{"message":"not allowed"}')));
  const container = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${failing}/role` };
  const { user } = PROXY_LOGIN;
  return {
    'no credentials': { env: NO_KEYS },
    // Early, because these three wait longest.
    'a private endpoint behind a firewall that drops packets': {
      env: { AWS_ENDPOINT_URL: `https://127.0.0.1:${silent}`, NO_PROXY: '127.0.0.1' },
    },
    'a proxy that cannot reach the host': { env: await proxy(503) },
    'a proxy that does not answer': { env: await proxy('silent') },
    'a profile that does not exist': { env: { ...NO_KEYS, AWS_PROFILE: 'no-such-profile', AWS_CONFIG_FILE: file('') } },
    'an access key that does not exist': { env: { AWS_ACCESS_KEY_ID: 'AKIAUNKNOWN' } },
    'a wrong secret key': { env: { AWS_SECRET_ACCESS_KEY: 'wrong-secret-key' } },
    'a session that has expired': {
      env: {
        AWS_ACCESS_KEY_ID: 'ASIAEXPIRED',
        AWS_SECRET_ACCESS_KEY: 'sts-secret-key',
        AWS_SESSION_TOKEN: 'old-session-token',
      },
    },
    'a wrong session token': { env: { AWS_SESSION_TOKEN: 'other-session-token' } },
    'a sign-in of IAM Identity Center that has expired': { env: sso('expired', -3_600_000) },
    'a role of IAM Identity Center without access': {
      env: sso('no-access', 3_600_000),
      roles: { 'no-access': { status: 403, code: 'ForbiddenException', message: 'No access' } },
    },
    'a role that may not be assumed': {
      env: role('locked'),
      roles: { locked: denied(`${USER} sts:AssumeRole on resource: arn:aws:iam::123456789012:role/locked`) },
    },
    'a source profile with an unknown key': {
      env: role('unknown-key'),
      roles: {
        'unknown-key': {
          status: 403,
          code: 'InvalidClientTokenId',
          message: 'The security token included in the request is invalid.',
        },
      },
    },
    'a web identity whose token has expired': {
      env: webIdentity('expired-token', file('bearer-secret')),
      roles: { 'expired-token': { status: 400, code: 'ExpiredTokenException', message: 'Token expired' } },
    },
    'a web identity that the role does not trust': {
      env: webIdentity('untrusted', file('bearer-secret')),
      roles: { untrusted: denied('Not authorized to perform sts:AssumeRoleWithWebIdentity') },
    },
    'a file of a web identity that does not exist': { env: webIdentity('any', '/no/such/token') },
    'a credential_process that fails': {
      env: profile(
        `credential_process = ${file("#!/bin/sh\necho 'sign in first' >&2; exit 1\n", 0o755)} program-secret`,
      ),
    },
    'a credential_process that prints no JSON': {
      env: profile(`credential_process = ${file('#!/bin/sh\necho program-secret\n', 0o755)}`),
    },
    'a pod or task whose role is rejected': { env: { ...NO_KEYS, ...container } },
    'a machine without a role': {
      env: {
        ...NO_KEYS,
        AWS_EC2_METADATA_DISABLED: 'false',
        AWS_EC2_METADATA_SERVICE_ENDPOINT: `http://127.0.0.1:${failing}`,
      },
    },
    'a bucket that does not exist': { bucket: 'no-such-bucket' },
    'a bucket of another account': { refuse: denied('Access Denied') },
    'an identity without a permission': {
      refuse: denied(`${USER} s3:GetObject because no identity-based policy allows the s3:GetObject action`),
    },
    'a policy that allows one VPC endpoint only': {
      refuse: denied(`${USER} s3:GetObject with an explicit deny in a resource-based policy`),
    },
    'a key that may not be used': {
      writes: true,
      refuse: denied(
        `${USER} kms:GenerateDataKey on this resource because no identity-based policy allows the kms:GenerateDataKey action`,
      ),
    },
    'a policy that demands encryption headers': {
      writes: true,
      refuse: denied(`${USER} s3:PutObject with an explicit deny in a service control policy`),
    },
    'a clock that is hours off and cannot be corrected': {
      refuse: {
        status: 403,
        code: 'RequestTimeTooSkewed',
        message: 'The difference between the request time and the current time is too large.',
      },
    },
    'a directory bucket': { bucket: 'models--use1-az4--x-s3' },
    'an access point': { flags: ['--bucket', 's3://arn:aws:s3:eu-central-1:123456789012:accesspoint/models/models'] },
    'a region that cannot exist': { flags: ['--region', 'eu_central_1'] },
    'a wrong value of AWS_USE_FIPS_ENDPOINT': { env: { AWS_USE_FIPS_ENDPOINT: 'yes' } },
    'an endpoint that contradicts AWS_USE_FIPS_ENDPOINT': {
      env: { AWS_USE_FIPS_ENDPOINT: 'true', AWS_ENDPOINT_URL_S3: 'https://s3.us-west-2.amazonaws.com' },
    },
    'an endpoint of another region': { env: { AWS_ENDPOINT_URL_S3: 'https://s3.us-west-2.amazonaws.com' } },
    'an endpoint without a scheme': { env: { AWS_ENDPOINT_URL: 'minio:9000' } },
    'an endpoint where no server listens': { env: { AWS_ENDPOINT_URL: 'http://127.0.0.1:9' } },
    'an endpoint that is no S3 API': { env: { AWS_ENDPOINT_URL: `http://127.0.0.1:${page}` } },
    'an endpoint with https whose server speaks http': {
      env: { AWS_ENDPOINT_URL: `https://127.0.0.1:${page}`, NO_PROXY: '127.0.0.1' },
    },
    'an endpoint with http whose server speaks https': { env: { AWS_ENDPOINT_URL: `http://127.0.0.1:${cloud.port}` } },
    'the authority of the company is missing': { env: { NODE_EXTRA_CA_CERTS: '' } },
    'the authority of the company is missing for the sign-in': {
      env: { ...role('publisher'), NODE_EXTRA_CA_CERTS: '' },
    },
    'AWS_CA_BUNDLE names no file': { env: { AWS_CA_BUNDLE: '/no/such/bundle.pem' } },
    'a proxy that demands a password': { env: { HTTPS_PROXY: `http://127.0.0.1:${cloud.proxy.port}` } },
    'a wrong password of the proxy': { env: { HTTPS_PROXY: `http://${user}:wrong@127.0.0.1:${cloud.proxy.port}` } },
    'a wrong password of the proxy, found by the sign-in': {
      env: { ...role('publisher'), HTTPS_PROXY: `http://${user}:wrong@127.0.0.1:${cloud.proxy.port}` },
    },
    'a password of the proxy that is not percent-encoded': {
      env: { HTTPS_PROXY: `http://${user}:odd#password@127.0.0.1:1` },
    },
    'a proxy of another kind': {
      env: { HTTPS_PROXY: `socks5://${user}:odd#password@127.0.0.1:1`.replace('#', '%23') },
    },
    'a proxy that does not allow the host': { env: await proxy(403) },
    'a proxy that does not listen': { env: { HTTPS_PROXY: 'http://127.0.0.1:9' } },
  };
}

const finished = new Map<string, Finished>();

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  cloud = await startCloud(scratch, endpoint);
  cloud.identities.set('ASIAEXPIRED', {
    accessKeyId: 'ASIAEXPIRED',
    secretAccessKey: 'sts-secret-key',
    sessionToken: 'old-session-token',
    expired: true,
  });
  await openBucket(scratch, endpoint, 'models');
  cloud.buckets.set('models', { region: 'eu-central-1' });
  writeRepository(repository, { 'a/config.pbtxt': 'backend: "anything"\n', 'a/1/weights.bin': 'a' });
  const [first, ...rest] = Object.entries(await setUps());
  let buckets = 0;
  const run = async ([title, setup]: [string, Setup]): Promise<void> => {
    const { refuse, env = {}, flags = [], roles = {} } = setup;
    const bucket = setup.bucket ?? (refuse === undefined ? 'models' : `models-${(buckets += 1)}`);
    if (refuse !== undefined) {
      await openBucket(scratch, endpoint, bucket);
      const isRead = (method: string): boolean => setup.writes === true && (method === 'GET' || method === 'HEAD');
      cloud.buckets.set(bucket, {
        region: 'eu-central-1',
        refuse: ({ method }) => (isRead(method) ? undefined : refuse),
      });
    }
    for (const [name, error] of Object.entries(roles)) cloud.refusals.set(name, error);
    const at = flags.includes('--bucket') ? [] : ['--bucket', `s3://${bucket}/models`];
    const [command, own] =
      setup.writes === true ? ['sync-models', ['--repo', repository, '--untried']] : ['releases', []];
    const all = { ...cloud.env, ...KEYS, AWS_REGION: 'eu-central-1', ...env };
    finished.set(title, await runCommandLine(command, [...own, ...at, ...flags], all));
  };
  // The first run compiles the command.
  if (first !== undefined) await run(first);
  await forEachLimited(rest, AT_A_TIME, run);
});
afterAll(() => scratch.clean());

/** The message and the next step, without what differs between runs, or a run that does not fail with both. */
function read(run: Finished): { message: string; hint: string } | Finished {
  const { code, stderr } = run;
  const { message, hint } =
    /^(?:FAIL [^\n]*\n)?error: (?<message>.*)\n {2}-> (?<hint>.*)\n$/.exec(stderr)?.groups ?? {};
  if (message === undefined || hint === undefined || (code !== 1 && code !== 2)) return run;
  const stable = (text: string): string =>
    text
      .replaceAll(scratch.directory, 'DIR')
      .replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:PORT')
      // Which of the first requests fails first is not determined.
      .replace(/^cannot (read|list) s3:\/\/\S+(?= at https?:)/, 'cannot read s3://BUCKET/KEY')
      .replace(/cannot write s3:\/\/\S+(?= at https?:)/, 'cannot write s3://BUCKET/KEY')
      .replace(/models-\d+/g, 'BUCKET')
      // Versions of Node differ in the code, and some add advice.
      .replace(/(EPROTO|ERR_SSL_WRONG_VERSION_NUMBER) .*(?=wrong version number)/, 'EPROTO ')
      .replace(/; if the root CA is installed locally.*/, '')
      .replace(/DIR\/file-\d+/g, 'FILE');
  return { message: stable(message), hint: stable(hint) };
}

test('no output contains a secret', () => {
  const all = [...finished].flatMap(([title, { stdout, stderr }]) =>
    SECRETS.filter((secret) => (stdout + stderr).includes(secret)).map((secret) => `${title}: ${secret}`),
  );
  expect(all).toEqual([]);
});

test('each wrong set-up has the expected message and next step', () => {
  const actual = Object.fromEntries([...finished].sort().map(([title, output]) => [title, read(output)]));
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(EXPECTED, `${JSON.stringify(actual, null, 2)}\n`);
  expect(actual).toEqual(JSON.parse(readFileSync(EXPECTED, 'utf8')));
});
