import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { paths } from '../../src/core/paths';
import { isAlive } from '../../src/core/lock.cjs';
import { ended, type Ended } from '../support/run';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A package with the real run.mjs, whose sources and node_modules a test can change. */
class Package {
  constructor(readonly folder: string) {}

  static create(name: string, sources: Record<string, string>): Package {
    const created = new Package(join(scratch.directory, name));
    for (const part of ['scripts/run.mjs', 'src/cli', 'src/core/lock.cjs']) {
      cpSync(join(paths.root, part), created.path(part), { recursive: true });
    }
    mkdirSync(created.path('node_modules'));
    for (const part of ['esbuild', '@esbuild']) {
      symlinkSync(join(paths.root, 'node_modules', part), created.path('node_modules', part));
    }
    for (const file of ['package.json', 'package-lock.json', 'node_modules/.package-lock.json'])
      created.write(`../${file}`, '{}');
    for (const [file, text] of Object.entries(sources)) created.write(file, text);
    return created;
  }

  path(...parts: string[]): string {
    return join(this.folder, ...parts);
  }

  write(file: string, text: string): void {
    mkdirSync(dirname(this.path('scripts', file)), { recursive: true });
    writeFileSync(this.path('scripts', file), text);
  }

  run(args: readonly string[], onOutput?: (kill: () => void) => void, env: NodeJS.ProcessEnv = {}): Promise<Ended> {
    const child = spawn(process.execPath, [this.path('scripts', 'run.mjs'), ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    });
    child.stdout.once('data', () => onOutput?.(() => child.kill('SIGINT')));
    return ended(child);
  }
}

const GREETING = `export const greeting: string = 'one';\n`;
const HELLO = {
  'hello.ts': `export async function main(args: readonly string[]): Promise<number> {
  const { greeting } = await import('./lib/greeting');
  process.stdout.write([greeting, ...args].join(' '));
  return 3;
}
`,
  'lib/greeting.ts': GREETING,
};
const success = (stdout: string): Partial<Ended> => ({ code: 3, signal: null, stdout, stderr: '' });

test('run.mjs passes the arguments and exits with the number that the command returns', async () => {
  const hello = Package.create('arguments', HELLO);
  expect(await hello.run(['hello', '--a', 'b c'])).toEqual(success('one --a b c'));
});

test('run.mjs writes all output to a pipe before it exits', async () => {
  const text = `export async function main() { process.stdout.write('é'.repeat(2_500_000)); return 0; }`;
  const { code, stdout } = await Package.create('pipe', { 'large.ts': text }).run(['large']);
  expect([code, stdout.length, new Set(stdout)]).toEqual([0, 2_500_000, new Set('é')]);
});

const LOCKED = { a: { version: '1.0.0', integrity: 'sha512-a' } };
const FOR_TESTS = { t: { version: '1.0.0', integrity: 'sha512-t', dev: true } };
const OTHER_PLATFORM = { b: { version: '1.0.0', integrity: 'sha512-b', optional: true } };
const WITHOUT_DEVELOPMENT = 'ci --omit=dev';
const COMPLETED = 'install --no-save --include=dev';

/**
 * Commands that print "one", and a fake npm, which writes its arguments to the file npm-runs, runs `script`, and records
 * what it installed.
 */
function createWithNpm(name: string, script = ''): { hello: Package; env: NodeJS.ProcessEnv; npmRuns: () => string[] } {
  const hello = Package.create(name, { ...HELLO, '../tools/tool.ts': `export { main } from '../scripts/hello';` });
  const lock = { packages: { '': {}, ...LOCKED, ...FOR_TESTS, ...OTHER_PLATFORM } };
  writeFileSync(hello.path('package-lock.json'), JSON.stringify(lock));
  rmSync(hello.path('node_modules', '.package-lock.json'));
  const record = (packages: object): string =>
    `echo '${JSON.stringify({ packages })}' > node_modules/.package-lock.json`;
  const recorded = `case "$*" in
  *--omit=dev*) ${record(LOCKED)} ;;
  *) ${record({ ...LOCKED, ...FOR_TESTS })} ;;
esac`;
  writeFileSync(hello.path('npm'), `#!/bin/sh\necho "$@" >> npm-runs\n${script}\n${recorded}\n`, { mode: 0o755 });
  const npmRuns = (): string[] =>
    existsSync(hello.path('npm-runs'))
      ? readFileSync(hello.path('npm-runs'), 'utf8')
          .trim()
          .split('\n')
          .map((line) => line.replace(/ --ignore-scripts.*/, ''))
      : [];
  return { hello, env: { PATH: `${hello.folder}:${process.env['PATH'] ?? ''}` }, npmRuns };
}

test.each<[string, Record<string, object>, string, string[]]>([
  ['keeps modules that npm ci installed without it', { ...LOCKED, ...FOR_TESTS }, 'tool', []],
  ['keeps such modules of every platform', { ...LOCKED, ...FOR_TESTS, ...OTHER_PLATFORM }, 'tool', []],
  ['keeps modules without the development packages for a command', LOCKED, 'hello', []],
  ['completes modules without the development packages for a tool', LOCKED, 'tool', [COMPLETED]],
  ['replaces another version', { a: { ...LOCKED.a, version: '2.0.0' } }, 'hello', [WITHOUT_DEVELOPMENT]],
  ['replaces modules if one is missing', {}, 'hello', [WITHOUT_DEVELOPMENT]],
  ['keeps a package that nothing needs', { ...LOCKED, c: LOCKED.a }, 'hello', []],
])('run.mjs %s', async (title, installed, command, runs) => {
  const { hello, env, npmRuns } = createWithNpm(title.replaceAll(' ', '-'));
  writeFileSync(hello.path('node_modules', '.package-lock.json'), JSON.stringify({ packages: installed }));
  expect(await hello.run([command], undefined, env)).toMatchObject({ code: 3, stdout: 'one' });
  expect(npmRuns()).toEqual(runs);
});

test('a tool completes the modules of a command without deleting them, and no later command installs any', async () => {
  const { hello, env, npmRuns } = createWithNpm('completed');
  for (const command of ['hello', 'hello', 'tool', 'hello', 'tool']) {
    expect(await hello.run([command], undefined, env)).toMatchObject({ code: 3, stdout: 'one' });
  }
  expect(npmRuns()).toEqual([WITHOUT_DEVELOPMENT, COMPLETED]);
});

test('npm and the set-up of Python run at the same time', async () => {
  // npm ends only if Python has started, and Python ends only if npm did not.
  const { hello, env } = createWithNpm('parallel', 'until [ -s python-started ]; do sleep 0.05; done');
  const python = `import os, sys
open(os.path.join(os.path.dirname(__file__), '..', 'python-started'), 'w').write(' '.join(sys.argv[1:]))`;
  hello.write('../python/environment.py', python);
  hello.write('local.ts', HELLO['hello.ts']);
  expect(await hello.run(['local'], undefined, env)).toMatchObject({ code: 3, stdout: 'one' });
  expect(readFileSync(hello.path('python-started'), 'utf8')).toBe('--embeddable --programs');
});

test('a second command waits for the installation of the first', async () => {
  const { hello, env, npmRuns } = createWithNpm('twice', 'sleep 0.5');
  const runs = await Promise.all([1, 2].map(() => hello.run(['hello'], undefined, env)));
  expect(runs.map(({ stdout }) => stdout)).toEqual(['one', 'one']);
  expect(runs.map(({ stderr }) => stderr).join('')).toMatch(/Waiting for process \d+, which runs npm ci/);
  expect(npmRuns()).toEqual([WITHOUT_DEVELOPMENT]);
});

test('run.mjs reports an npm that fails, and installs again at the next start', async () => {
  const { hello, env, npmRuns } = createWithNpm('failed', '[ -e fixed ] || exit 1');
  const { code, stderr } = await hello.run(['hello'], undefined, env);
  expect([code, stderr.split('\n').at(-2)]).toEqual([
    1,
    'error: npm ci failed (see above). Check the network, and the registry and proxy settings of npm',
  ]);
  writeFileSync(hello.path('fixed'), '');
  expect(await hello.run(['hello'], undefined, env)).toMatchObject({ code: 3, stdout: 'one' });
  expect(npmRuns()).toHaveLength(2);
});

test.each(['SIGINT', 'SIGTERM'] as const)('%s during the installation ends npm', async (signal) => {
  const { hello, env } = createWithNpm(`set-up-${signal}`, 'echo $$ > npm-started; exec sleep 600');
  const child = spawn(process.execPath, [hello.path('scripts', 'run.mjs'), 'hello'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const end = ended(child);
  while (!existsSync(hello.path('npm-started'))) await sleep(20);
  child.kill(signal);
  expect(await end).toMatchObject({ code: 1 });
  expect(isAlive(Number(readFileSync(hello.path('npm-started'), 'utf8')))).toBe(false);
});

test.each([
  ['ends a command at Ctrl-C', '', { code: null, signal: 'SIGINT' }],
  ['lets a command handle Ctrl-C', `process.once('SIGINT', () => process.exit(130));`, { code: 130, signal: null }],
])('run.mjs %s', async (_, handler, expected) => {
  const wait = `export async function main() { ${handler} setInterval(() => {}, 1e9); console.log('waits'); }`;
  const waits = Package.create(`interrupt-${expected.code}`, { 'wait.ts': wait });
  expect(await waits.run(['wait'], (kill) => kill())).toMatchObject(expected);
});

test('after an installation, Ctrl-C ends the command', async () => {
  const { hello, env } = createWithNpm('installed');
  hello.write('wait.ts', `export async function main() { setInterval(() => {}, 1e9); console.log('waits'); }`);
  expect(await hello.run(['wait'], (kill) => kill(), env)).toMatchObject({ code: null, signal: 'SIGINT' });
});

test('run.mjs refuses an unknown command', async () => {
  const stderr = 'error: no such command: helo; "npm run" lists them\n';
  expect(await Package.create('unknown', HELLO).run(['helo'])).toMatchObject({ code: 1, stdout: '', stderr });
});

test('run.mjs reports where a source cannot be compiled', async () => {
  const hello = Package.create('broken', { ...HELLO, 'lib/greeting.ts': 'export const greeting = ;\n' });
  const { code, stdout, stderr } = await hello.run(['hello']);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain('scripts/lib/greeting.ts:1:24');
});
