import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { acquireLock } from '../../src/local/install/cache';
import { emptyLargeBucket } from '../../src/local/s3-server';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const DAY_MS = 86_400_000;

/** Writes 64 KiB to a folder, which was last used some days ago. */
function addFolder(path: string, mark: string, days: number, text = ''): void {
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'data'), Buffer.alloc(65_536, 1));
  writeFileSync(join(path, mark), text);
  const at = new Date(Date.now() - days * DAY_MS);
  for (const file of [join(path, mark), path]) utimesSync(file, at, at);
}

/** A cache with programs, packages of models, and two local stacks. */
function makeCache(name: string): { root: string; clean: (...flags: string[]) => Promise<Finished> } {
  const home = join(scratch.directory, name);
  const root = join(home, 'triton-serving');
  const folders = { 'python3.11-0a1b': 3, 'python3.12-b1c2': 2, 'uv-0.1.0': 9, 'uv-0.2.0': 0, weights: 5 };
  for (const [folder, days] of Object.entries(folders)) addFolder(join(root, folder), '.complete', days);
  for (const id of ['aa', '0b']) addFolder(join(root, `trace-packages-${id}`), '.complete', 1);
  addFolder(join(root, 'trace-packages-new'), '.complete', 0);
  writeFileSync(join(root, 'trace-packages-aa.lock'), '');
  for (const id of ['one', 'two']) {
    const readme = `Bucket and logs of "npm run local" for /srv/${id}. You can delete this folder.\n`;
    addFolder(join(root, 'local', id), 'README', 4, readme);
  }
  return { root, clean: (...flags) => runCommandLine('clean', flags, { XDG_CACHE_HOME: home }) };
}

const contentOf = (root: string): string[] =>
  [...readdirSync(root), ...readdirSync(join(root, 'local')).map((id) => `local/${id}`)].sort();

test('npm run clean lists everything and deletes nothing without --yes', async () => {
  const { root, clean } = makeCache('asks');
  const before = contentOf(root);
  const { code, stdout } = await clean();
  expect(code).toBe(0);
  expect(stdout).toMatch(/^bucket of \/srv\/one +[\d.]+ kB +[-\d]+ [\d:]+ +not in use$/m);
  expect(stdout).toMatch(/^python3\.12-b1c2 .* newest version$/m);
  expect(stdout).toMatch(/\nTo delete: .*\. Delete them with --yes\.\n$/);
  expect(contentOf(root)).toEqual(before);
});

test('npm run clean deletes what is not in use', async () => {
  const { root, clean } = makeCache('stopped');
  expect(await clean('--yes')).toMatchObject({ code: 0 });
  const left = ['local', 'python3.12-b1c2', 'trace-packages-aa.lock', 'trace-packages-new', 'uv-0.2.0'];
  expect(contentOf(root)).toEqual(left);
  expect((await clean('--yes')).stdout).toContain('of which 0 B are not in use');
});

test('npm run clean keeps the bucket and the packages of a running npm run local', async () => {
  const { root, clean } = makeCache('running');
  const release = await acquireLock(join(root, 'local', 'one', 'lock'), 'the local stack', { wait: false });
  expect(await clean('--yes')).toMatchObject({ code: 0 });
  release();
  const left = contentOf(root);
  expect(left).toEqual(expect.arrayContaining(['local/one', 'trace-packages-aa', 'trace-packages-0b', 'weights']));
  expect(left).not.toContain('local/two');
  expect(left).not.toContain('uv-0.1.0');
});

test.each([
  ['is emptied if it is large', 100_000, 0],
  ['stays if it is small', 200_000, 1],
])('a local bucket that is four times its repository %s', (_, limit, left) => {
  const [bucket, repository] = [join(scratch.directory, `bucket-${limit}`), join(scratch.directory, `repo-${limit}`)];
  for (const part of ['a', 'b']) addFolder(join(bucket, part), 'x', 0);
  mkdirSync(repository);
  const lines: string[] = [];
  emptyLargeBucket(bucket, repository, (line) => lines.push(line), limit);
  expect(lines).toHaveLength(1 - left);
  expect(readdirSync(scratch.directory).includes(`bucket-${limit}`)).toBe(left === 1);
});
