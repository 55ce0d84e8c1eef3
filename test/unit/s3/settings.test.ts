import { writeFileSync } from 'node:fs';
import type http from 'node:http';
import { join } from 'node:path';
import type { UserError } from '../../../src/core/errors';
import { openAgent, readProxy } from '../../../src/s3/agent';
import { readSettings } from '../../../src/s3/endpoint';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const config = join(scratch.directory, 'config');
writeFileSync(
  config,
  `[default]
region = eu-central-1
ca_bundle = /profile.pem

[profile work]
region = eu-west-3
endpoint_url = https://every.example
services = private
use_fips_endpoint = true

[profile other]
endpoint_url = https://every.example

[services private]
s3 =
  endpoint_url = https://s3.example
`,
);

const { env: before } = process;
afterEach(() => {
  process.env = before;
});

/** The settings in an environment that has only these variables. */
function read(env: NodeJS.ProcessEnv, options = {}): ReturnType<typeof readSettings> {
  const none = join(scratch.directory, 'none');
  // The AWS library reads the names of the files from the environment of the process.
  process.env = { AWS_CONFIG_FILE: none, AWS_SHARED_CREDENTIALS_FILE: none, ...env };
  return readSettings(options, process.env);
}

const FILE = { AWS_CONFIG_FILE: config };
const VPC = 'https://bucket.vpce-1a2b3c4d-5e6f.s3.ap-south-1.vpce.amazonaws.com';

describe('readSettings', () => {
  test.each([
    [{}, {}, 'us-east-1'],
    [FILE, {}, 'eu-central-1'],
    [{ ...FILE, AWS_PROFILE: 'work' }, {}, 'eu-west-3'],
    [{ ...FILE, AWS_PROFILE: 'no such profile' }, {}, 'us-east-1'],
    [{ ...FILE, AWS_PROFILE: 'work', AWS_DEFAULT_REGION: 'eu-north-1' }, {}, 'eu-north-1'],
    [{ AWS_DEFAULT_REGION: 'eu-north-1', AWS_REGION: 'eu-south-1' }, {}, 'eu-south-1'],
    [{ AWS_REGION: '', AWS_DEFAULT_REGION: '' }, {}, 'us-east-1'],
    [{ AWS_REGION: 'eu-south-1' }, { region: 'sa-east-1' }, 'sa-east-1'],
    [{ AWS_REGION: 'eu-south-1' }, { endpointUrl: VPC }, 'ap-south-1'],
    [{ AWS_ENDPOINT_URL: 'https://s3.dualstack.eu-west-2.amazonaws.com' }, {}, 'eu-west-2'],
    [{ AWS_ENDPOINT_URL: 'https://s3-fips.us-gov-east-1.amazonaws.com' }, {}, 'us-gov-east-1'],
    [{ AWS_ENDPOINT_URL: 'https://s3.company.example' }, {}, 'us-east-1'],
    [{}, { endpointUrl: VPC, region: 'sa-east-1' }, 'sa-east-1'],
  ])('with the variables %j and the options %j has the region %s', async (env, options, region) => {
    expect((await read(env, options)).region).toBe(region);
  });

  test.each<[NodeJS.ProcessEnv, object, string | undefined]>([
    [{}, {}, undefined],
    [{ AWS_ENDPOINT_URL: 'http://a' }, {}, 'http://a'],
    [{ AWS_ENDPOINT_URL: 'http://a', AWS_ENDPOINT_URL_S3: 'http://b' }, {}, 'http://b'],
    [{ AWS_ENDPOINT_URL_S3: 'http://b' }, { endpointUrl: 'http://c' }, 'http://c'],
    [{ AWS_ENDPOINT_URL: 'http://a', AWS_ENDPOINT_URL_S3: '' }, {}, 'http://a'],
    [{ AWS_ENDPOINT_URL: '', AWS_ENDPOINT_URL_S3: '' }, { endpointUrl: '' }, undefined],
    [{ ...FILE, AWS_PROFILE: 'other' }, {}, 'https://every.example'],
    [{ ...FILE, AWS_PROFILE: 'work' }, {}, 'https://s3.example'],
    [{ ...FILE, AWS_PROFILE: 'work', AWS_ENDPOINT_URL: 'http://a' }, {}, 'http://a'],
    [{ ...FILE, AWS_PROFILE: 'work', AWS_IGNORE_CONFIGURED_ENDPOINT_URLS: 'true' }, {}, undefined],
  ])('with the variables %j and the options %j has the endpoint %s', async (env, options, endpointUrl) => {
    expect((await read(env, options)).endpointUrl).toBe(endpointUrl);
  });

  test.each([
    [{}, { fips: false, dualStack: false, caFile: undefined }],
    [
      { AWS_USE_FIPS_ENDPOINT: 'TRUE', AWS_USE_DUALSTACK_ENDPOINT: 'true' },
      { fips: true, dualStack: true },
    ],
    [{ ...FILE, AWS_PROFILE: 'work' }, { fips: true }],
    [{ ...FILE, AWS_PROFILE: 'work', AWS_USE_FIPS_ENDPOINT: 'false' }, { fips: false }],
    [
      { AWS_USE_FIPS_ENDPOINT: '', AWS_CA_BUNDLE: '' },
      { fips: false, caFile: undefined },
    ],
    [FILE, { caFile: '/profile.pem' }],
    [{ ...FILE, AWS_CA_BUNDLE: '/variable.pem' }, { caFile: '/variable.pem' }],
  ])('with the variables %j has %j', async (env, expected) => {
    expect(await read(env)).toMatchObject(expected);
  });

  test('rejects a value that is neither true nor false', async () => {
    await expect(read({ AWS_USE_FIPS_ENDPOINT: 'yes' })).rejects.toThrow(
      'AWS_USE_FIPS_ENDPOINT is "yes"; allowed: true',
    );
  });
});

describe('openAgent', () => {
  const open = (env: NodeJS.ProcessEnv, caFile?: string): http.Agent =>
    openAgent({ secure: true, connections: 1, idleTimeoutMs: 1000, caFile, env });

  test.each([
    ['HTTPS_PROXY', 'http://user:hunter#2@proxy:8080', /percent-encoded: # as %23/],
    ['HTTPS_PROXY', 'http://user:hunter2%@proxy:8080', /percent-encoded/],
    ['https_proxy', 'user:hunter2@', /not the address of an HTTP proxy/],
    ['HTTPS_PROXY', 'http://user:hunter/2@proxy:8080', /not the address of an HTTP proxy/],
    ['https_proxy', 'socks5://user:hunter2@proxy:1080', /not the address of an HTTP proxy/],
  ])('rejects %s=%s and does not show the password', async (variable, value, message) => {
    const opening = Promise.resolve({ [variable]: value }).then((env) => open(env));
    const error = (await opening.catch((caught: unknown) => caught)) as UserError;
    const text = `${error.message}\n${error.hint}`;
    expect(text).toMatch(message);
    expect(text).toMatch(new RegExp(`^${variable} `));
    expect(text).not.toContain('hunter');
    expect(error.cause).toBeUndefined();
  });

  test.each([join(scratch.directory, 'missing.pem'), config])('rejects the certificates in %s', (file) => {
    expect(() => open({}, file)).toThrow(`cannot read the certificates in ${file}`);
  });

  test('readProxy accepts the addresses of a proxy', () => {
    for (const [text, href] of [
      ['https://proxy', 'https://proxy/'],
      ['proxy:3128', 'http://proxy:3128/'],
      ['http://u:p%23@[::1]:3128/', 'http://u:p%23@[::1]:3128/'],
    ]) {
      expect(readProxy({ HTTPS_PROXY: text })?.url.href).toBe(href);
    }
  });
});
