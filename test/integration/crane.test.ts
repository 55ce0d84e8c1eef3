import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { CRANE, ensureCrane, type CraneRelease } from '../../src/install/crane';
import { findOnPath } from '../../src/install/on-path';
import { listenOnLoopback } from '../support/loopback';
import { Scratch } from '../support/temp-dir';

/** The download of crane, from a server on loopback in place of that of the releases. */

const scratch = new Scratch();
const before = { ...process.env };
const tools = join(scratch.directory, 'tools');
const step = new Progress(process.stderr, true).step('');
let release: CraneRelease;
let requests: string[] = [];

beforeAll(async () => {
  const folder = join(scratch.directory, 'release');
  mkdirSync(folder);
  writeFileSync(join(folder, 'crane'), '#!/bin/sh\necho downloaded\n', { mode: 0o755 });
  writeFileSync(join(folder, 'LICENSE'), '');
  execFileSync('tar', ['-czf', join(folder, 'a.tar.gz'), '-C', folder, 'crane', 'LICENSE']);
  const archive = readFileSync(join(folder, 'a.tar.gz'));
  // The releases are behind a redirect, too.
  const server = createServer(({ url = '' }, reply) => {
    requests.push(url);
    if (url === '/v1/a.tar.gz') reply.writeHead(302, { location: '/a.tar.gz' }).end();
    else if (url === '/a.tar.gz') reply.end(archive);
    else reply.writeHead(404).end();
  });
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  const sha256 = createHash('sha256').update(archive).digest('hex');
  const archives = { [`${process.platform}-${process.arch}`]: ['a.tar.gz', sha256] as const };
  release = { version: 'v1', url: `http://127.0.0.1:${port}/v1`, archives };
  mkdirSync(tools);
  for (const name of ['curl', 'tar', 'gzip']) symlinkSync(findOnPath(name) ?? '', join(tools, name));
});
afterAll(async () => {
  process.env = before;
  await scratch.clean();
});

beforeEach(() => {
  requests = [];
  const cache = join(scratch.directory, 'cache');
  rmSync(cache, { recursive: true, force: true });
  process.env = { ...before, PATH: tools, XDG_CACHE_HOME: cache };
});

const changed = (name: string, sha256: string): CraneRelease => ({
  ...release,
  archives: { [`${process.platform}-${process.arch}`]: [name, sha256] },
});

test('crane is downloaded once, through a redirect', async () => {
  const program = await ensureCrane(step, release);
  expect(await ensureCrane(step, release)).toBe(program);
  expect(requests).toEqual(['/v1/a.tar.gz', '/a.tar.gz']);
  process.env['PATH'] = before['PATH'];
  expect(execFileSync(program, { encoding: 'utf8' })).toBe('downloaded\n');
});

test('the crane on PATH is used, in any version', async () => {
  const own = join(scratch.directory, 'own');
  mkdirSync(own);
  writeFileSync(join(own, 'crane'), '', { mode: 0o755 });
  process.env['PATH'] = own;
  expect(await ensureCrane(step, release)).toBe(join(own, 'crane'));
  expect(requests).toEqual([]);
});

test.each<[what: string, release: () => CraneRelease, says: RegExp]>([
  [
    'an archive with other content',
    () => changed('a.tar.gz', '0'.repeat(64)),
    /has the SHA-256 [0-9a-f]{64}, not 0{64}$/,
  ],
  ['a missing archive', () => changed('b.tar.gz', ''), /404/],
  ['a platform without a build', () => ({ ...release, archives: {} }), /no build for \w+-\w+ is known here$/],
  ['a machine without curl', () => ((process.env['PATH'] = ''), release), /curl: spawn curl ENOENT/],
])('%s is refused, with other ways to get crane', async (_, make, says) => {
  await expect(ensureCrane(step, make())).rejects.toMatchObject({
    message: expect.stringMatching(says) as string,
    hint: expect.stringMatching(/^put crane on PATH: "go install .*crane@v1", "brew install crane", or http/) as string,
  });
  expect(existsSync(join(process.env['XDG_CACHE_HOME'] as string, 'triton-serving', 'crane-v1', 'crane'))).toBe(false);
});

test('the official builds have the address and the version of one release', () => {
  expect(CRANE.url.endsWith(`/download/${CRANE.version}`)).toBe(true);
});
