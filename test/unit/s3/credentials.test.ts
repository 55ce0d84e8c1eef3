import http from 'node:http';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CredentialSource } from '../../../src/s3/credentials';
import { Scratch } from '../../support/temp-dir';
import { until } from '../../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const before = { ...process.env };
afterEach(() => {
  process.env = before;
  jest.restoreAllMocks();
});

/** Sets the clock forward, by what the function returns at each look. */
function setClockForward(getMs: () => number): void {
  const { now } = Date;
  jest.spyOn(Date, 'now').mockImplementation(() => now() + getMs());
}

const KEYS_GIVEN = { accessKeyId: 'id', secretAccessKey: 'secret' };
const KEYS = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' };

/** A source in an environment with only these variables of AWS. */
function source(environment: NodeJS.ProcessEnv): CredentialSource {
  const none = join(scratch.directory, 'none');
  process.env = {
    PATH: before['PATH'],
    AWS_CONFIG_FILE: none,
    AWS_SHARED_CREDENTIALS_FILE: none,
    AWS_EC2_METADATA_DISABLED: 'true',
    ...environment,
  };
  return new CredentialSource(undefined, () => Promise.resolve({ region: 'us-east-1', agent: new http.Agent() }));
}

let folders = 0;

/** A profile whose program prints the key "run N" the Nth time, valid for the Nth number of seconds. */
function program(...lifetimes: (number | 'fails')[]): { env: NodeJS.ProcessEnv; runs: () => number } {
  const base = join(scratch.directory, `program-${(folders += 1)}`);
  const [script, count, config] = [`${base}.sh`, `${base}.count`, `${base}.config`];
  const cases = lifetimes.map((lifetime, index) => {
    if (lifetime === 'fails') return `${index + 1}) echo 'no sign-in' >&2; exit 1 ;;`;
    const Expiration = new Date(Date.now() + lifetime * 1000).toISOString();
    const output = { Version: 1, AccessKeyId: `run ${index + 1}`, SecretAccessKey: 'secret', Expiration };
    return `${index + 1}) echo '${JSON.stringify(output)}' ;;`;
  });
  writeFileSync(
    script,
    `#!/bin/sh\necho >> '${count}'\ncase $(($(wc -l < '${count}'))) in\n${cases.join('\n')}\nesac\n`,
  );
  chmodSync(script, 0o755);
  writeFileSync(config, `[profile p]\ncredential_process = ${script}\n`);
  return {
    env: { AWS_CONFIG_FILE: config, AWS_PROFILE: 'p' },
    runs: () => (existsSync(count) ? readFileSync(count).byteLength : 0),
  };
}

describe('CredentialSource', () => {
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
  ])('reads %s from the environment and cannot renew them', async (_, environment, expected) => {
    const credentials = source(environment);
    expect(credentials.get()).toEqual(expected);
    expect(await credentials.renew(KEYS_GIVEN)).toBe(false);
  });

  test('prefers a profile to keys', async () => {
    expect(await source({ ...KEYS, ...program(3600).env }).get()).toMatchObject({ accessKeyId: 'run 1' });
  });

  test.each([
    ['a key without its secret', { AWS_ACCESS_KEY_ID: 'id' }],
    ['an empty secret', { ...KEYS, AWS_SECRET_ACCESS_KEY: '' }],
  ])('reports %s as missing credentials', async (_, environment) => {
    const message = 'cannot obtain the AWS credentials: Could not load credentials from any providers';
    await expect(source(environment).get()).rejects.toThrow(message);
  });

  test('asks for credentials once for concurrent and later requests', async () => {
    const { env, runs } = program(3600);
    const credentials = source(env);
    await Promise.all([credentials.get(), credentials.get()]);
    expect(credentials.get()).toMatchObject({ accessKeyId: 'run 1' });
    expect(runs()).toBe(1);
  });

  test('does not run the program for each request if its credentials expire within five minutes', async () => {
    const { env, runs } = program(240, 240, 240);
    const credentials = source(env);
    for (let n = 0; n < 5; n += 1) expect(await credentials.get()).toMatchObject({ accessKeyId: 'run 1' });
    expect(runs()).toBe(1);
  });

  test('does not use credentials after they expire', async () => {
    const credentials = source(program(5, 3600).env);
    expect(await credentials.get()).toMatchObject({ accessKeyId: 'run 1' });
    setClockForward(() => 6000);
    expect(await credentials.get()).toMatchObject({ accessKeyId: 'run 2' });
  });

  test('renew replaces rejected credentials once for concurrent requests', async () => {
    const { env, runs } = program(3600, 3600);
    const credentials = source(env);
    const first = await credentials.get();
    expect(await Promise.all([credentials.renew(first), credentials.renew(first)])).toEqual([true, true]);
    expect(await credentials.renew(first)).toBe(true);
    expect(credentials.get()).toMatchObject({ accessKeyId: 'run 2' });
    expect(runs()).toBe(2);
  });

  test('names the profile and the cause if the program fails', async () => {
    const message = /^cannot obtain the AWS credentials of profile p: .*no sign-in/;
    await expect(source(program('fails').env).get()).rejects.toThrow(message);
  });

  test.each<[string, (number | 'fails')[], string]>([
    ['renews credentials before they expire', [240, 3600], 'run 2'],
    ['keeps valid credentials if a renewal fails, and renews them later', [240, 'fails', 3600], 'run 3'],
  ])('%s', async (_, lifetimes, expected) => {
    const credentials = source(program(...lifetimes).env);
    let later = 0;
    setClockForward(() => later);
    const got = new Set<string>();
    await until('the credentials are renewed', async () => {
      got.add((await credentials.get()).accessKeyId);
      later += 11_000;
      return got.has(expected);
    });
    expect([...got]).toEqual(['run 1', expected]);
  });
});
