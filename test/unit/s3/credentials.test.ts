import { CredentialSource } from '../../../src/s3/credentials';

let mockFetched = 0;
let mockLifetimeMs = 0;
/** AWS's own chain, which would ask files and the network. */
jest.mock('@aws-sdk/credential-provider-node', () => ({
  defaultProvider: () => () => {
    mockFetched += 1;
    return Promise.resolve({
      accessKeyId: `fetched ${mockFetched}`,
      secretAccessKey: 'secret',
      expiration: new Date(Date.now() + mockLifetimeMs),
    });
  },
}));

const before = { ...process.env };
beforeEach(() => {
  process.env = Object.fromEntries(Object.entries(before).filter(([name]) => !name.startsWith('AWS_')));
  mockFetched = 0;
  mockLifetimeMs = 60 * 60_000;
});
afterAll(() => {
  process.env = before;
});

const KEYS = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' };

test.each([
  ['keys', KEYS, { accessKeyId: 'id', secretAccessKey: 'secret' }],
  [
    'keys with a token',
    { ...KEYS, AWS_SESSION_TOKEN: 'token' },
    { accessKeyId: 'id', secretAccessKey: 'secret', sessionToken: 'token' },
  ],
  [
    'an empty token and profile',
    { ...KEYS, AWS_SESSION_TOKEN: '', AWS_PROFILE: '' },
    { accessKeyId: 'id', secretAccessKey: 'secret' },
  ],
])('CredentialSource reads %s from the environment', async (_, environment, expected) => {
  Object.assign(process.env, environment);
  expect(await new CredentialSource(undefined).get()).toEqual(expected);
  expect(mockFetched).toBe(0);
});

test.each([
  ['a profile and keys', { ...KEYS, AWS_PROFILE: 'work' }],
  ['a key without its secret', { AWS_ACCESS_KEY_ID: 'id' }],
  ['an empty secret', { ...KEYS, AWS_SECRET_ACCESS_KEY: '' }],
])('CredentialSource uses the AWS chain if the environment has %s', async (_, environment) => {
  Object.assign(process.env, environment);
  expect(await new CredentialSource(undefined).get()).toMatchObject({ accessKeyId: 'fetched 1' });
});

test('CredentialSource uses fetched credentials until five minutes before they expire', async () => {
  const source = new CredentialSource(undefined);
  await source.get();
  await source.get();
  expect(mockFetched).toBe(1);
  mockLifetimeMs = 4 * 60_000;
  const short = new CredentialSource(undefined);
  await short.get();
  expect(await short.get()).toMatchObject({ accessKeyId: 'fetched 3' });
});

test('CredentialSource fetches once for concurrent requests', async () => {
  const source = new CredentialSource(undefined);
  await Promise.all([source.get(), source.get()]);
  expect(mockFetched).toBe(1);
});
