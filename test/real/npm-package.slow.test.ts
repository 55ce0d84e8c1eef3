import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { localDirectory } from '../../src/local/stack';
import { FREE_PORTS, getAddress, untilUp, watchLocal } from '../support/local-command';
import { fences } from '../support/markdown';
import { NpmRegistry } from '../support/npm-registry';
import { Scratch } from '../support/temp-dir';

jest.setTimeout(900_000);

/** Installs the package from a registry, as a user without this repository does. */
const scratch = new Scratch();
afterAll(() => scratch.clean());

const { version } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as { version: string };

let registry: NpmRegistry;
const home = join(scratch.directory, 'home');
const project = join(home, 'my-models');

beforeAll(async () => {
  registry = await NpmRegistry.start(scratch);
  mkdirSync(home);
});

/** Runs the program of the package in a folder. */
const tritonServing = (folder: string, ...args: string[]): ReturnType<NpmRegistry['run']> =>
  registry.run(folder, 'npx', '--yes', 'triton-serving', ...args);

test('npx makes a project in an empty folder', async () => {
  expect((await tritonServing(home, '--version')).stdout.trim()).toBe(version);
  const { stdout } = await tritonServing(home, 'init', 'my-models');
  expect(stdout).toContain('npx triton-serving local');
  await expect(tritonServing(home, 'init', 'my-models')).rejects.toThrow('my-models is not empty');
});

test('the project serves its model, publishes a version and shows it', async () => {
  await registry.run(project, 'npm', 'install');
  scratch.defer(() => rmSync(localDirectory(join(project, 'model-repo')), { recursive: true, force: true }));
  // npx does not pass signals on.
  const program = join(project, 'node_modules', '.bin', 'triton-serving');
  const child = spawn(program, ['local', '--no-watch', ...FREE_PORTS], {
    cwd: project,
    env: registry.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const local = watchLocal(child);
  scratch.defer(async () => {
    child.kill('SIGINT');
    await local.ended;
  });
  await untilUp(local);
  const folder = join(project, 'model-repo', 'celsius');
  cpSync(join(folder, '1'), join(folder, '2'), { recursive: true });
  const config = readFileSync(join(folder, 'model.yaml'), 'utf8');
  writeFileSync(join(folder, 'model.yaml'), config.replace('versions: [1]', 'versions: [2]'));
  expect((await tritonServing(project, 'sync-models', '--local')).stdout).toContain('serves celsius 2');
  expect((await tritonServing(project, 'status', '--local')).stdout).toMatch(/as released, READY +.*celsius 2 /);
  const url = getAddress(local, 'Triton HTTP');
  const { stdout } = await tritonServing(project, 'infer', 'celsius', '[[212]]', '--url', url);
  expect(stdout).toContain('100');
  child.kill('SIGINT');
  expect(await local.ended).toBe(0);
});

test('the program of Pulumi is found', async () => {
  const script = `
    console.log(typeof require('./index.js'), typeof require('triton-serving/components').ModelRepository);
  `;
  writeFileSync(join(project, 'script.cjs'), script);
  const { stdout } = await registry.run(project, 'npx', '--yes', 'node', 'script.cjs');
  expect(stdout.split('\n')).toEqual(expect.arrayContaining(['function function']));
});

// Those of `pulumi new typescript`, and those of a program with ES modules.
test.each([
  ['commonjs', 'node10'],
  ['nodenext', 'nodenext'],
])('a program in TypeScript for %s finds the types of the components', async (module, moduleResolution) => {
  const documented = fences(readFileSync(join(paths.root, 'docs', 'components.md'), 'utf8'));
  const program = documented.find(({ text }) => text.includes(`from 'triton-serving/components'`))?.text ?? '';
  expect(program).toContain('new TritonServer(');
  const file = join(project, `program-${module}.ts`);
  writeFileSync(file, `${program}\n// @ts-expect-error\nnew TritonServer('faces', { replicas: 'two' });\n`);
  const flags = {
    module,
    moduleResolution,
    target: 'es2022',
    types: 'node',
    typeRoots: join(paths.root, 'node_modules/@types'),
  };
  const compiler = join(paths.root, 'node_modules', 'typescript', 'bin', 'tsc');
  const args = Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, value]);
  const { stdout } = await registry.run(project, process.execPath, compiler, '--strict', '--noEmit', ...args, file);
  expect(stdout).toBe('');
});
