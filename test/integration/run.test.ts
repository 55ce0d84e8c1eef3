import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { paths } from '../../src/core/paths';
import { isAlive } from '../../src/launch/lock.cjs';
import { ended, type Ended } from '../support/run';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A package with the real run.mjs, whose sources and node_modules a test can change. */
class Package {
  constructor(readonly folder: string) {}

  static create(name: string, sources: Record<string, string>): Package {
    const created = new Package(join(scratch.directory, name));
    for (const part of ['scripts/run.mjs', 'src/launch', 'tsconfig.json']) {
      cpSync(join(paths.root, part), created.path(part), { recursive: true });
    }
    mkdirSync(created.path('node_modules'));
    for (const part of ['esbuild', '@esbuild']) {
      symlinkSync(join(paths.root, 'node_modules', part), created.path('node_modules', part));
    }
    created.lock('{}');
    writeFileSync(created.path('package.json'), '{}');
    for (const [file, text] of Object.entries(sources)) created.write(file, text);
    return created;
  }

  path(...parts: string[]): string {
    return join(this.folder, ...parts);
  }

  /** After this, nothing can be compiled. */
  removeCompiler(): void {
    rmSync(this.path('node_modules', 'esbuild'));
  }

  /** Writes a source, always with the same modification time. */
  write(file: string, text: string): void {
    mkdirSync(dirname(this.path('scripts', file)), { recursive: true });
    writeFileSync(this.path('scripts', file), text);
    utimesSync(this.path('scripts', file), 1_700_000_000, 1_700_000_000);
  }

  /** Writes the lock file, and marks it as installed by `npm ci`. */
  lock(text: string): void {
    writeFileSync(this.path('package-lock.json'), text);
    const installed = createHash('sha256').update(text).update(process.versions.modules).digest('hex');
    writeFileSync(this.path('node_modules', '.installed-lock'), installed);
  }

  bundles(): string[] {
    const commands = this.path('node_modules', '.cache', 'triton-serving', 'commands');
    const files = readdirSync(commands, { recursive: true, encoding: 'utf8' });
    return files.filter((file) => file.endsWith('main.mjs')).map((file) => join(commands, dirname(file)));
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
const ALL = 'ci --include=dev';

/** Commands that print "one", and a fake npm, which writes its arguments to the file npm-runs and then runs `script`. */
function createWithNpm(name: string, script = ''): { hello: Package; env: NodeJS.ProcessEnv; npmRuns: () => string[] } {
  const hello = Package.create(name, { ...HELLO, '../tools/tool.ts': `export { main } from '../scripts/hello';` });
  const lock = { packages: { '': {}, ...LOCKED, ...FOR_TESTS, ...OTHER_PLATFORM } };
  writeFileSync(hello.path('package-lock.json'), JSON.stringify(lock));
  rmSync(hello.path('node_modules', '.installed-lock'));
  writeFileSync(hello.path('npm'), `#!/bin/sh\necho "$@" >> npm-runs\n${script}\n`, { mode: 0o755 });
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
  ['installs the development packages for a tool', LOCKED, 'tool', [ALL]],
  ['replaces another version', { a: { ...LOCKED.a, version: '2.0.0' } }, 'hello', [WITHOUT_DEVELOPMENT]],
  ['replaces modules if one is missing', {}, 'hello', [WITHOUT_DEVELOPMENT]],
  ['replaces modules with one more', { ...LOCKED, c: LOCKED.a }, 'hello', [WITHOUT_DEVELOPMENT]],
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
  expect(npmRuns()).toEqual([WITHOUT_DEVELOPMENT, 'install --no-save --include=dev']);
});

/** Part of a fake npm and of a fake environment.py: each waits until the other has started. */
const MEETS_PYTHON = 'echo $$ > npm-started; until [ -s python-started ]; do sleep 0.05; done';
const MEETS_NPM = `import os, time
root = os.path.dirname(os.path.dirname(__file__))
def wait_for(name):
    while not os.path.exists(os.path.join(root, name)) or not os.path.getsize(os.path.join(root, name)):
        time.sleep(0.05)
with open(os.path.join(root, "python-started"), "w") as file:
    file.write(str(os.getpid()))
wait_for("npm-started")
`;

/** Like createWithNpm, with the command "trace", which prints what environment.py made. */
function createWithPython(
  name: string,
  npm: string,
  python: string,
): ReturnType<typeof createWithNpm> & { pids: () => number[] } {
  const created = createWithNpm(name, `${MEETS_PYTHON}; ${npm}`);
  const { hello } = created;
  hello.write('../python/environment.py', MEETS_NPM + python);
  hello.write(
    'trace.ts',
    `import { takeSetup } from '../src/launch/python.cjs';
export async function main() { process.stdout.write(JSON.stringify(await takeSetup('none', []).finished)); return 3; }
`,
  );
  const pids = (): number[] =>
    ['npm-started', 'python-started'].map((file) => Number(readFileSync(hello.path(file), 'utf8')));
  return { ...created, pids };
}

const PRINTS_RESULT = `print('{"detail": "installs"}'); print('{"result": "made"}')`;
const WAITS = 'time.sleep(600)';

test('npm and the set-up of Python run at the same time, and the command takes over the set-up', async () => {
  // The set-up ends after npm.
  const slow = `wait_for("npm-ended"); ${PRINTS_RESULT}`;
  const { hello, env } = createWithPython('parallel', 'echo 1 > npm-ended', slow);
  const { code, stdout, stderr } = await hello.run(['trace'], undefined, env);
  expect({ code, stdout }).toEqual({ code: 3, stdout: '"made"' });
  expect(stderr).toContain('Installing node modules (npm ci) | Python environment');
});

test('a second command waits for the installation of the first', async () => {
  const { hello, env, npmRuns } = createWithNpm('twice', 'sleep 0.5');
  const runs = await Promise.all([1, 2].map(() => hello.run(['hello'], undefined, env)));
  expect(runs.map(({ stdout }) => stdout)).toEqual(['one', 'one']);
  expect(runs.map(({ stderr }) => stderr).join('')).toMatch(/Waiting for process \d+, which installs node modules/);
  expect(npmRuns()).toEqual([WITHOUT_DEVELOPMENT]);
});

test.each([
  [
    'npm',
    'exit 1',
    WAITS,
    'error: npm ci failed (see above). Check the network, and the registry and proxy settings of npm, and try again.\n',
  ],
  [
    'the set-up of Python',
    'exec sleep 600',
    `print('{"error": "no disk", "hint": "free some"}'); raise SystemExit(1)`,
    'error: no disk\n  -> free some\n',
  ],
])('if %s fails, run.mjs reports it once and ends the other', async (name, npm, python, error) => {
  const { hello, env, pids } = createWithPython(`failed-${name.replaceAll(' ', '-')}`, npm, python);
  const { code, stderr } = await hello.run(['trace'], undefined, env);
  expect(code).toBe(1);
  expect(stderr.split('error: ')).toHaveLength(2);
  expect(stderr.endsWith(error)).toBe(true);
  expect(pids().map(isAlive)).toEqual([false, false]);
});

test.each(['SIGINT', 'SIGTERM'] as const)('%s during the set-up ends npm and Python', async (signal) => {
  const { hello, env, pids } = createWithPython(`set-up-${signal}`, 'exec sleep 600', WAITS);
  const child = spawn(process.execPath, [hello.path('scripts', 'run.mjs'), 'trace'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const end = ended(child);
  while (!['npm-started', 'python-started'].every((file) => existsSync(hello.path(file)))) await sleep(20);
  child.kill(signal);
  expect(await end).toMatchObject({ code: null, signal });
  expect(pids().map(isAlive)).toEqual([false, false]);
});

test('a wrong command line ends a set-up of Python that still runs', async () => {
  const { hello, env, pids } = createWithPython('wrong', '', WAITS);
  hello.write('trace.ts', 'export async function main() { return 2; }');
  expect(await hello.run(['trace'], undefined, env)).toMatchObject({ code: 2 });
  expect(isAlive(pids()[1] as number)).toBe(false);
});

test.each([
  ['ends a command at Ctrl-C', '', { code: null, signal: 'SIGINT' }],
  ['lets a command handle Ctrl-C', `process.once('SIGINT', () => process.exit(130));`, { code: 130, signal: null }],
])('run.mjs %s', async (_, handler, expected) => {
  const wait = `export async function main() { ${handler} setInterval(() => {}, 1e9); console.log('waits'); }`;
  const waits = Package.create(`interrupt-${expected.code}`, { 'wait.ts': wait });
  expect(await waits.run(['wait'], (kill) => kill())).toMatchObject(expected);
});

test('run.mjs refuses an unknown command', async () => {
  const stderr = 'error: no such command: helo; "npm run" lists them\n';
  expect(await Package.create('unknown', HELLO).run(['helo'])).toMatchObject({ code: 1, stdout: '', stderr });
});

test('run.mjs reports where a source cannot be compiled, and compiles it once it is fixed', async () => {
  const hello = Package.create('broken', { ...HELLO, 'lib/greeting.ts': 'export const greeting = ;\n' });
  const { code, stdout, stderr } = await hello.run(['hello']);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain('error: scripts/hello.ts cannot be compiled');
  expect(stderr).toContain('scripts/lib/greeting.ts:1:24');
  expect(stderr).not.toContain('node:internal');
  hello.write('lib/greeting.ts', GREETING);
  expect(await hello.run(['hello'])).toEqual(success('one'));
});

test('stack traces name the TypeScript files and their lines', async () => {
  const trace = Package.create('trace', {
    'trace.ts': `interface Unused { a: number }
import { Known } from './lib/known';
export async function main(): Promise<void> {
  const { fail } = await import('./lib/fail');
  try {
    fail();
  } catch (error) {
    process.stdout.write(error instanceof Known ? error.stack : 'classes of the same file differ');
  }
  fail();
}
`,
    'lib/known.ts': 'export class Known extends Error {}\n',
    'lib/fail.ts': `import { Known } from './known';
type Unused = string;
export function fail(): never {
  throw new Known('reason');
}
`,
  });
  const { code, stdout, stderr } = await trace.run(['trace']);
  const place = `at fail (${trace.path('scripts', 'lib', 'fail.ts')}:4:9)`;
  const [title, first, second] = stdout.split('\n').map((line) => line.trim());
  expect([code, title, first]).toEqual([1, 'Error: reason', place]);
  expect(second).toContain(`${trace.path('scripts', 'trace.ts')}:6:5`);
  expect(stderr).toContain(place);
});

test('a command is compiled again only after a change of its sources, node_modules or folder', async () => {
  const hello = Package.create('changes', HELLO);
  await hello.run(['hello']);
  hello.write('lib/greeting.ts', GREETING.replace('one', 'two')); // The same length and modification time.
  expect(await hello.run(['hello'])).toEqual(success('two'));
  hello.lock('{ "changed": true }');
  expect(await hello.run(['hello'])).toEqual(success('two'));
  const copy = new Package(`${hello.folder}-copy`);
  cpSync(hello.folder, copy.folder, { recursive: true, verbatimSymlinks: true });
  expect(await copy.run(['hello'])).toEqual(success('two'));
  expect([hello.bundles().length, copy.bundles().length]).toEqual([3, 4]);
  hello.removeCompiler();
  expect(await hello.run(['hello'])).toEqual(success('two'));
});

test('working trees that share node_modules each keep their bundle', async () => {
  const hello = Package.create('shared', HELLO);
  const other = new Package(`${hello.folder}-worktree`);
  cpSync(hello.folder, other.folder, { recursive: true, filter: (path) => path !== hello.path('node_modules') });
  symlinkSync(hello.path('node_modules'), other.path('node_modules'));
  other.write('lib/greeting.ts', GREETING.replace('one', 'two'));
  for (const tree of [hello, other]) await tree.run(['hello']);
  hello.removeCompiler();
  expect([await hello.run(['hello']), await other.run(['hello'])]).toEqual([success('one'), success('two')]);
});

test('bundles older than a day are deleted when a command is compiled', async () => {
  const hello = Package.create('old', HELLO);
  await hello.run(['hello']);
  const [old] = hello.bundles() as [string];
  utimesSync(old, 1_700_000_000, 1_700_000_000);
  hello.write('lib/greeting.ts', GREETING.replace('one', 'two'));
  expect(await hello.run(['hello'])).toEqual(success('two'));
  expect(hello.bundles()).toEqual([expect.not.stringContaining(old)]);
});

test('commands that start together, after one that was killed while it compiled, all run', async () => {
  const hello = Package.create('together', HELLO);
  // A killed command leaves a part of a bundle.
  const half = hello.path('node_modules', '.cache', 'triton-serving', 'commands', 'hello', 'bundle-half');
  mkdirSync(half, { recursive: true });
  writeFileSync(join(half, 'main.mjs'), 'export const');
  const runs = await Promise.all(['0', '1', '2'].map((i) => hello.run(['hello', i])));
  expect(runs).toEqual(['0', '1', '2'].map((i) => success(`one ${i}`)));
  for (const folder of hello.bundles()) rmSync(folder, { recursive: true });
  expect(await hello.run(['hello'])).toEqual(success('one'));
});

test('a command runs where its bundle cannot be recorded', async () => {
  const hello = Package.create('unrecorded', HELLO);
  await hello.run(['hello']);
  const commands = hello.path('node_modules', '.cache', 'triton-serving', 'commands', 'hello');
  const [record = ''] = readdirSync(commands).filter((file) => file.endsWith('.json'));
  rmSync(join(commands, record));
  mkdirSync(join(commands, record, 'a folder'), { recursive: true });
  expect(await hello.run(['hello'])).toEqual(success('one'));
});

test('a command runs where node_modules cannot be written', async () => {
  const hello = Package.create('read-only', {
    'root.ts': `import { greeting } from 'sharp';
import { paths } from './lib/paths';
export async function main() { process.stdout.write(greeting + paths.root); return 3; }
`,
  });
  cpSync(join(paths.source, 'core', 'paths.ts'), hello.path('scripts', 'lib', 'paths.ts'));
  mkdirSync(hello.path('node_modules', 'sharp')); // A package that is not bundled.
  writeFileSync(hello.path('node_modules', 'sharp', 'index.js'), `exports.greeting = 'from ';`);
  writeFileSync(hello.path('node_modules', '.cache'), 'a file where the folder would be');
  expect(await hello.run(['root'])).toEqual(success(`from ${hello.folder}`));
});
