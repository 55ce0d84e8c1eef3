import { cpSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { exec, type Output } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import type { TritonProcess } from '../../src/local/triton-server';
import { addingModel, writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A program of a user who has only the client package. */
const project = writeRepository(join(scratch.directory, 'project'), {
  'package.json': '{ "private": true }',
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      module: 'nodenext',
      target: 'es2022',
      strict: true,
      types: ['node'],
      typeRoots: [join(paths.root, 'node_modules', '@types')],
    },
    files: ['right.mts', 'wrong.cts'],
  }),
  'right.mts': `import { TritonError, TritonGrpcClient, TritonHttpClient, TritonModel, type InferenceClient } from '@triton-serving/client';
import type { Models } from './models.js';

const [, , httpUrl = '', grpcAddress = ''] = process.argv;
const clients: InferenceClient[] = [new TritonHttpClient(httpUrl), new TritonGrpcClient(grpcAddress)];
for (const client of clients) {
  const model = await TritonModel.open<Models['adds']>(client, 'adds');
  const { name, datatype, shape, data } = model.output(await model.infer({ x: [1, 2] }), 'y');
  const values: Float32Array = data;
  console.log([name, datatype, ...shape, ...values].join(' '));
  await client.modelMetadata('nothing').catch((error: unknown) => console.log(error instanceof TritonError));
  client.close();
}
`,
  'models.ts': "export interface Models {\n  adds: { inputs: { x: 'FP32' }; outputs: { y: 'FP32' } };\n}\n",
  // Statements that the types must reject.
  'wrong.cts': `import triton = require('@triton-serving/client');
import type { Models } from './models.js';

const client = new triton.TritonHttpClient('http://127.0.0.1:8000');
void triton.TritonModel.open<Models['adds']>(client, 'adds').then(async (model) => {
  // @ts-expect-error
  await model.infer({});
  // @ts-expect-error
  await model.infer({ x: [1], xs: [1] });
  // @ts-expect-error
  await model.infer({ x: BigInt64Array.of(1n) });
  // @ts-expect-error
  await model.infer({ x: [['one']] });
  // @ts-expect-error
  model.output(await model.infer({ x: [1] }), 'ys');
});
// @ts-expect-error
void client.infer('adds', [{ name: 'x', datatype: 'FP32', shape: [1], data: Int32Array.of(1) }]);
// @ts-expect-error
client.infers;
`,
  'run.cjs': `const { TritonHttpClient } = require('@triton-serving/client');

const client = new TritonHttpClient(process.argv[2]);
client.live().then((live) => {
  console.log(live);
  client.close();
});
`,
});

let server: TritonProcess;
let compiled: Output;
beforeAll(async () => {
  const repository = writeRepository(join(scratch.directory, 'repository'), addingModel('adds', { 1: 10 }));
  [server] = await Promise.all([testTriton(scratch, repository), install()]);
  const compiler = join(paths.root, 'node_modules', 'typescript', 'bin', 'tsc');
  compiled = await exec(process.execPath, [compiler, '-p', project]);
});

/** Copies the sources of the package, because packing writes beside them while other tests read them. */
function copyOfSources(): string {
  const copy = join(scratch.directory, 'sources');
  for (const name of ['client', 'src', 'tsconfig.json', 'package-lock.json', 'LICENSE'])
    cpSync(join(paths.root, name), join(copy, name), { recursive: true, filter: (from) => !/__pycache__/.test(from) });
  symlinkSync(join(paths.root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

/** Packs the package with npm and installs it without a network, because it has no dependencies. */
async function install(): Promise<void> {
  const folder = join(copyOfSources(), 'client');
  await exec('npm', ['pack', folder, '--pack-destination', scratch.directory], { cwd: scratch.directory });
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  const tarball = join(scratch.directory, `triton-serving-client-${version}.tgz`);
  await exec('npm', ['install', '--offline', '--no-audit', '--no-fund', tarball], { cwd: project });
}

test('the types accept a correct program and reject wrong statements', () => {
  expect(compiled).toEqual({ stdout: '', stderr: '' });
});

test('an ES module can import it and send requests over HTTP and gRPC', async () => {
  const program = join(project, 'right.mjs');
  const { stdout } = await exec(process.execPath, [program, server.httpUrl, server.grpcAddress], { cwd: project });
  expect(stdout).toBe('y FP32 2 11 12\ntrue\n'.repeat(2));
});

test('a CommonJS module can require it', async () => {
  const { stdout } = await exec(process.execPath, [join(project, 'run.cjs'), server.httpUrl], { cwd: project });
  expect(stdout).toBe('true\n');
});

test('its page of the API has every export', () => {
  const exported = [...readFileSync(join(paths.source, 'triton', 'index.ts'), 'utf8').matchAll(/\{([^}]*)\}/g)].flatMap(
    ([, names = '']) => names.split(',').map((name) => name.replace('type ', '').trim()),
  );
  const installed = join(project, 'node_modules', '@triton-serving', 'client');
  const page = readFileSync(join(installed, 'dist', 'api', 'README.md'), 'utf8');
  const headings = [...page.matchAll(/^### (\w+)/gm)].map(([, name]) => name);
  expect(headings.sort()).toEqual(exported.filter((name) => name !== '').sort());
});

test('contains one JavaScript file, its types and licence, and has the version of the main package', () => {
  const installed = join(project, 'node_modules', '@triton-serving', 'client');
  const read = (path: string): { version: string } => JSON.parse(readFileSync(path, 'utf8')) as { version: string };
  expect(read(join(installed, 'package.json')).version).toBe(read(join(paths.root, 'package.json')).version);
  expect(readFileSync(join(installed, 'LICENSE'), 'utf8')).toContain('Apache License');
  expect(readFileSync(join(installed, 'README.md'), 'utf8')).toContain('# Client for NVIDIA Triton');
});
