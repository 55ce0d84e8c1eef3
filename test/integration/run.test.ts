import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { paths } from '../../src/core/paths';
import type { Finished } from '../support/run';
import { Scratch } from '../support/scratch';

/** A separate package with the real run.mjs, whose sources and node_modules a test can change. */
class Package {
  readonly directory: string;

  constructor(name: string, sources: Record<string, string>) {
    this.directory = join(scratch.directory, name);
    for (const part of ['scripts/run.mjs', 'src/launch', 'tsconfig.json']) {
      cpSync(join(paths.root, part), join(this.directory, part), { recursive: true });
    }
    mkdirSync(this.path('node_modules'));
    this.linkCompiler();
    this.lock('{}');
    for (const [file, text] of Object.entries(sources)) this.write(file, text);
  }

  path(...parts: string[]): string {
    return join(this.directory, ...parts);
  }

  linkCompiler(): void {
    for (const part of ['esbuild', '@esbuild']) {
      symlinkSync(join(paths.root, 'node_modules', part), this.path('node_modules', part));
    }
  }

  /** Removes the compiler, so that nothing can be compiled any more. */
  unlinkCompiler(): void {
    rmSync(this.path('node_modules', 'esbuild'));
  }

  /** Writes a source without changing its modification time. */
  write(file: string, text: string): void {
    const path = this.path('scripts', file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    utimesSync(path, 1_700_000_000, 1_700_000_000);
  }

  /** Writes the lock file, and marks it as installed by `npm ci`. */
  lock(text: string): void {
    writeFileSync(this.path('package-lock.json'), text);
    const installed = createHash('sha256').update(text).update(process.versions.modules).digest('hex');
    writeFileSync(this.path('node_modules', '.installed-lock'), installed);
  }

  /** Folder of the cached bundles of `command`. */
  bundles(command: string): string {
    return this.path('node_modules', '.cache', 'triton-serving', 'commands', command);
  }

  entries(command: string): string[] {
    return readdirSync(this.bundles(command)).filter((name) => /^main-\w+\.cjs$/.test(name));
  }

  /** Path of the only cached file whose name matches. */
  kept(command: string, name: RegExp): string {
    const found = readdirSync(this.bundles(command)).filter((file) => name.test(file));
    expect(found).toHaveLength(1);
    return join(this.bundles(command), found[0] as string);
  }

  run(...args: string[]): Promise<Finished> {
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [this.path('scripts', 'run.mjs'), ...args], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const finished: Finished = { code: null, stdout: '', stderr: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => (finished.stdout += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (finished.stderr += text));
      child.once('error', reject);
      child.once('close', (code) => resolve({ ...finished, code }));
    });
  }
}

const HELLO = {
  'hello.ts': `import { greeting } from './lib/greeting';
export async function main(args: readonly string[]): Promise<number> {
  process.stdout.write(greeting + ' ' + args.join(' '));
  return 3;
}
`,
  'lib/greeting.ts': `export const greeting: string = 'one';\n`,
};

let scratch: Scratch;
beforeAll(() => {
  scratch = new Scratch();
});
afterAll(() => scratch.clean());

test('the command gets its arguments, and its number is the exit code', async () => {
  const hello = new Package('arguments', HELLO);
  expect(await hello.run('hello', '--a', 'b c')).toEqual({ code: 3, stdout: 'one --a b c', stderr: '' });
});

test('all that was written to a pipe arrives', async () => {
  const large = new Package('pipe', {
    'large.ts': `export async function main() { process.stdout.write('x'.repeat(5_000_000)); return 0; }`,
  });
  const { code, stdout } = await large.run('large');
  expect([code, stdout.length]).toEqual([0, 5_000_000]);
});

test('text is what it is in the source, wherever it stands', async () => {
  const text = (tag: string): string => `${tag}\`“é” 😀 \\n \${1}\``;
  const written = new Package('text', {
    'say.ts': `const tag = (all: TemplateStringsArray, one: number): string => all[0] + '|' + all.raw[0] + one + all[1];
export async function main() {
  console.log(${text('')}, ${text('tag')}, '“é” 😀');
  return 0;
}
`,
  });
  expect(await written.run('say')).toMatchObject({ stdout: '“é” 😀 \n 1 “é” 😀 \n |“é” 😀 \\n 1 “é” 😀\n' });
});

test('an unchanged command is not compiled again', async () => {
  const hello = new Package('unchanged', HELLO);
  await hello.run('hello');
  hello.unlinkCompiler();
  expect(await hello.run('hello')).toEqual({ code: 3, stdout: 'one ', stderr: '' });
});

test('a change of the content of a source counts, also of the same length at the same time', async () => {
  const hello = new Package('changed', HELLO);
  await hello.run('hello');
  const source = hello.path('scripts', 'lib', 'greeting.ts');
  const { size, mtimeMs } = statSync(source);
  hello.write('lib/greeting.ts', HELLO['lib/greeting.ts'].replace('one', 'two'));
  expect(statSync(source)).toMatchObject({ size, mtimeMs });
  expect(await hello.run('hello')).toMatchObject({ stdout: 'two ' });
  expect(hello.entries('hello')).toHaveLength(2); // A running process may still load a part of the old bundle.

  hello.write('lib/greeting.ts', HELLO['lib/greeting.ts']);
  expect(await hello.run('hello')).toMatchObject({ stdout: 'one ' });
  expect(hello.entries('hello')).toHaveLength(2);
});

test('other node_modules make another bundle, and old bundles go', async () => {
  const hello = new Package('modules', HELLO);
  await hello.run('hello');
  const before = hello.entries('hello');
  for (const name of readdirSync(hello.bundles('hello'))) {
    utimesSync(join(hello.bundles('hello'), name), 1_700_000_000, 1_700_000_000);
  }
  hello.lock('{ "changed": true }');
  await hello.run('hello');
  expect(hello.entries('hello')).toHaveLength(1);
  expect(hello.entries('hello')).not.toEqual(before);
});

test('commands that are started together make one bundle', async () => {
  const hello = new Package('together', HELLO);
  const runs = await Promise.all(Array.from({ length: 4 }, (_, i) => hello.run('hello', String(i))));
  expect(runs).toEqual([0, 1, 2, 3].map((i) => ({ code: 3, stdout: `one ${i}`, stderr: '' })));
  expect(readdirSync(hello.bundles('hello')).map((name) => name.replace(/-\w+/, ''))).toEqual([
    'main.cjs',
    'main.cjs.map',
  ]);
});

test('a bundle that was deleted is made again', async () => {
  const hello = new Package('deleted', HELLO);
  await hello.run('hello');
  rmSync(hello.bundles('hello'), { recursive: true });
  expect(await hello.run('hello')).toMatchObject({ code: 3, stdout: 'one ' });
});

test('where node_modules cannot be written, the command runs all the same', async () => {
  const hello = new Package('read-only', {
    'root.ts': `import { paths } from './lib/paths';
export async function main() {
  const { seldom } = await import('./lib/seldom');
  process.stdout.write(paths.root + seldom);
  return 0;
}
`,
    'lib/seldom.ts': `export const seldom = ' and seldom';\n`,
  });
  cpSync(join(paths.source, 'core', 'paths.ts'), hello.path('scripts', 'lib', 'paths.ts'));
  writeFileSync(hello.path('node_modules', '.cache'), 'a file where the folder should be');
  expect(await hello.run('root')).toEqual({ code: 0, stdout: `${hello.directory} and seldom`, stderr: '' });
});

const LAZY = {
  'lazy.ts': `import { Known } from './lib/known';
export async function main(args: readonly string[]): Promise<number> {
  if (args[0] === undefined) return 0;
  const { fail } = await import('./lib/seldom');
  try {
    fail();
  } catch (error) {
    process.stdout.write(String(error instanceof Known));
  }
  return 0;
}
`,
  'lib/known.ts': 'export class Known extends Error {}\n',
  'lib/seldom.ts': `import { Known } from './known';
process.stdout.write('loaded ');
export function fail(): never {
  throw new Known('a long sentence that is found again');
}
`,
};

test('what is imported lazily is in a file of its own and shares the classes of the rest', async () => {
  const lazy = new Package('lazy', LAZY);
  expect(await lazy.run('lazy')).toEqual({ code: 0, stdout: '', stderr: '' });
  expect(readFileSync(lazy.kept('lazy', /^main-\w+\.cjs$/), 'utf8')).not.toContain('a long sentence');
  expect(await lazy.run('lazy', 'now')).toEqual({ code: 0, stdout: 'loaded true', stderr: '' });
});

test('compiled code is kept after a good run, and damaged code does no harm', async () => {
  const lazy = new Package('code', LAZY);
  await lazy.run('lazy', '--help');
  expect(readdirSync(lazy.bundles('lazy')).filter((name) => name.includes('.code-'))).toEqual([]);
  await lazy.run('lazy', 'now');
  const code = lazy.kept('lazy', /^main-\w+\.cjs\.code-/);
  const whole = readFileSync(code);
  lazy.kept('lazy', /^seldom-\w+-\w+\.cjs\.code-/);

  writeFileSync(code, whole.subarray(0, whole.length / 2));
  expect(await lazy.run('lazy', 'now')).toEqual({ code: 0, stdout: 'loaded true', stderr: '' });
  expect(readFileSync(code).length).toBeGreaterThan(whole.length / 2);
});

test('a command of many lazy parts says nothing about it', async () => {
  const numbers = Array.from({ length: 15 }, (_, i) => i);
  const many = new Package('many', {
    'many.ts': `export async function main() {
${numbers.map((i) => `  process.stdout.write((await import('./lib/part${i}')).name);`).join('\n')}
  return 0;
}
`,
    ...Object.fromEntries(numbers.map((i) => [`lib/part${i}.ts`, `export const name = '${i} ';\n`])),
  });
  expect(await many.run('many')).toEqual({ code: 0, stdout: `${numbers.join(' ')} `, stderr: '' });
});

test('parts that did not change are kept, with their compiled code', async () => {
  const lazy = new Package('shared', LAZY);
  await lazy.run('lazy', 'now');
  lazy.write('lazy.ts', LAZY['lazy.ts'].replace('return 0', 'return 4'));
  expect(await lazy.run('lazy')).toEqual({ code: 4, stdout: '', stderr: '' });
  expect(lazy.entries('lazy')).toHaveLength(2);
  lazy.kept('lazy', /^seldom-\w+-\w+\.cjs$/);
  lazy.kept('lazy', /^seldom-\w+-\w+\.cjs\.code-/);
});

test('stack traces name the TypeScript files and their lines', async () => {
  const trace = new Package('trace', {
    'trace.ts': `interface Unused { a: number }

export async function main(): Promise<number> {
  const { fail } = await import('./lib/fail');
  try {
    fail();
  } catch (error) {
    process.stdout.write((error as Error).stack ?? '');
  }
  return fail();
}
`,
    'lib/fail.ts': `type Unused = string;
export function fail(): never {
  throw new TypeError('told');
}
`,
  });
  const { code, stdout, stderr } = await trace.run('trace');
  const lines = stdout.split('\n');
  expect(lines[0]).toBe('TypeError: told');
  expect(lines[1]).toBe(`    at fail (${trace.path('scripts', 'lib', 'fail.ts')}:3:9)`);
  expect(lines[2]).toBe(`    at main (${trace.path('scripts', 'trace.ts')}:6:5)`);
  expect(code).toBe(1);
  expect(stderr).toContain(`TypeError: told\n    at fail (${trace.path('scripts', 'lib', 'fail.ts')}:3:9)`);
});

test('a source that cannot be compiled is told with its place, and not remembered', async () => {
  const hello = new Package('broken', HELLO);
  hello.write('lib/greeting.ts', 'export const greeting = ;\n');
  const { code, stdout, stderr } = await hello.run('hello');
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain('error: scripts/hello.ts cannot be compiled');
  expect(stderr).toContain('scripts/lib/greeting.ts:1:24');
  expect(stderr).not.toContain('node:internal');

  hello.write('lib/greeting.ts', HELLO['lib/greeting.ts']);
  expect(await hello.run('hello')).toMatchObject({ code: 3, stdout: 'one ' });
});

test('an unknown command is refused', async () => {
  const hello = new Package('unknown', HELLO);
  const refused = { code: 1, stdout: '', stderr: 'error: no such command: helo; "npm run" lists them\n' };
  expect(await hello.run('helo')).toEqual(refused);
});
