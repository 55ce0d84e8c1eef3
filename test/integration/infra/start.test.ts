import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { paths } from '../../../src/core/paths';

test('the Pulumi program does not load modules that run servers or download tools', () => {
  const { metafile } = buildSync({
    absWorkingDir: paths.root,
    entryPoints: [join('infra', 'index.ts')],
    outdir: 'not-written',
    bundle: true,
    packages: 'external',
    platform: 'node',
    write: false,
    metafile: true,
  });
  const ours = Object.keys(metafile.inputs);
  expect(ours).toContain('infra/stack.ts');
  expect(ours.filter((file) => /src\/(install|local|core\/exec)\b/.test(file))).toEqual([]);
});

/** Runs a program in a separate Node.js process and parses its JSON output. */
const getAnswer = (program: string): unknown =>
  JSON.parse(execFileSync(process.execPath, ['--no-warnings', '-e', program], { cwd: paths.root, encoding: 'utf8' }));

test('the Pulumi program loads closure serialization only if it is used', () => {
  const told = getAnswer(`
    require('./infra/start.cjs');
    const count = (name) => Object.keys(require.cache).filter((path) => path.includes('node_modules/' + name + '/')).length;
    const before = { sdk: count('@pulumi/pulumi') > 0, installer: count('pacote') };
    const { serializeFunction } = require('@pulumi/pulumi').runtime;
    const two = 2;
    serializeFunction((x) => x * two).then(({ text }) => console.log(JSON.stringify({ before, text })));`) as {
    before: object;
    text: string;
  };
  expect(told.before).toEqual({ sdk: true, installer: 0 });
  expect(told.text).toContain('return (x) => x * two');
});

test("stack traces are mapped to sources, except those of Pulumi's internal promises", () => {
  const stacks = getAnswer(`
    Error.prepareStackTrace = () => 'looked up';
    require('./infra/start.cjs');
    const { debuggablePromise } = require('@pulumi/pulumi/runtime/debuggable.js');
    const promise = Promise.resolve();
    debuggablePromise(promise, 'a test');
    console.log(JSON.stringify([new Error('ours').stack, promise._debugStackTrace]));`);
  expect(stacks).toEqual(['looked up', 'Error']);
});
