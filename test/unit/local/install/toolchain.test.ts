import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acquireLock, cached, requireFreeSpace } from '../../../../src/local/install/cache';
import { whyTritonCannotRun } from '../../../../src/local/install/triton';

let home: string;
const before = process.env['XDG_CACHE_HOME'];
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'cache-test-'));
  process.env['XDG_CACHE_HOME'] = home;
});
afterEach(() => {
  if (before === undefined) delete process.env['XDG_CACHE_HOME'];
  else process.env['XDG_CACHE_HOME'] = before;
  rmSync(home, { recursive: true, force: true });
});

describe('cached', () => {
  test('builds a folder once', async () => {
    let builds = 0;
    const build = async (directory: string): Promise<void> => {
      builds += 1;
      writeFileSync(join(directory, 'file'), 'content');
    };
    const first = await cached('tool-1', build);
    expect(await cached('tool-1', build)).toBe(first);
    expect(builds).toBe(1);
    expect(readFileSync(join(first, 'file'), 'utf8')).toBe('content');
  });

  test('builds a folder once for two concurrent callers', async () => {
    let builds = 0;
    const build = async (): Promise<void> => {
      builds += 1;
      await new Promise((resolve) => setTimeout(resolve, 50));
    };
    await Promise.all([cached('tool-1', build), cached('tool-1', build)]);
    expect(builds).toBe(1);
  });

  test('starts with an empty folder after a failed build', async () => {
    const failing = cached('tool-1', async (directory) => {
      writeFileSync(join(directory, 'half'), '');
      throw new Error('network');
    });
    await expect(failing).rejects.toThrow('network');
    const directory = await cached('tool-1', async () => undefined);
    expect(existsSync(join(directory, 'half'))).toBe(false);
  });
});

describe('acquireLock', () => {
  test.each([
    ['of a process that has ended', '999999999'],
    ['without an owner', ''],
    ['that is damaged', '\0\0'],
  ])('takes over a lock %s', async (_, content) => {
    const path = join(home, 'lock');
    writeFileSync(path, content);
    const release = await acquireLock(path, 'test');
    expect(readFileSync(path, 'utf8')).toBe(String(process.pid));
    release();
    expect(readdirSync(home)).toEqual([]);
  });

  test('reports a lock that cannot be read', async () => {
    const path = join(home, 'lock');
    mkdirSync(path);
    await expect(acquireLock(path, 'test')).rejects.toThrow(`cannot write ${path}: EISDIR`);
  });

  test('reports the owner if it may not wait', async () => {
    const release = await acquireLock(join(home, 'lock'), 'test');
    await expect(acquireLock(join(home, 'lock'), 'the test', { wait: false })).rejects.toThrow(
      `the test is in use by process ${process.pid}`,
    );
    release();
  });

  test('does not delete the lock of a later owner', async () => {
    const path = join(home, 'lock');
    const release = await acquireLock(path, 'test');
    writeFileSync(path, '1');
    release();
    expect(readFileSync(path, 'utf8')).toBe('1');
  });
});

test('requireFreeSpace reports the required and the free space', () => {
  expect(() => requireFreeSpace(home, 1e18, 'PyTorch')).toThrow(
    /PyTorch needs 1000000.0 TB in .*, but only .* are free/,
  );
  expect(() => requireFreeSpace(home, 1, 'PyTorch')).not.toThrow();
});

const NEEDS = 'it needs glibc 2.35 or newer; this system has';
test.each([
  ['linux', 'x64', '2.36', undefined],
  ['linux', 'x64', '2.35', undefined],
  ['linux', 'x64', '3', undefined],
  // A number is compared, not a text.
  ['linux', 'x64', '2.9', `${NEEDS} 2.9`],
  ['linux', 'x64', '', `${NEEDS} another C library`],
  ['linux', 'arm64', '2.39', 'its PyPI build needs x86-64; this processor is arm64'],
  ['darwin', 'arm64', '', 'it runs only on Linux; this system is darwin'],
])('whyTritonCannotRun checks system, processor and C library (%s, %s, glibc "%s")', (system, cpu, glibc, reason) => {
  expect(whyTritonCannotRun(system, cpu, glibc)).toBe(reason);
});
