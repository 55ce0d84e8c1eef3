import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as components from '../../infra/components';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { inFolder, MOVE_TO_PACKAGE, runBlock } from '../support/doc-commands';
import { Scratch } from '../support/temp-dir';
import { buildSync } from 'esbuild';

/** Runs the program of the Pulumi project in this folder against mocks, and prints what it registers. */
const RECORD = `
const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { resolve } = require('node:path');

const ofProject = createRequire(resolve('Pulumi.yaml'));
const pulumi = ofProject('@pulumi/pulumi');
const read = (file) => ofProject('js-yaml').load(readFileSync(file, 'utf8'));

async function record() {
  const { name, main } = read('Pulumi.yaml');
  const config = Object.entries({ ...read('Pulumi.local.yaml').config, ...JSON.parse(process.env.SECRETS) });
  const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
  pulumi.runtime.setAllConfig(
    Object.fromEntries(config.map(([key, value]) => [key, text(value)])),
    Object.keys(JSON.parse(process.env.SECRETS)),
  );
  const newResource = ({ name, inputs }) => ({ id: name, state: inputs });
  await pulumi.runtime.setMocks({ newResource, call: () => ({}) }, name, 'local', false, 'organization');
  const monitor = pulumi.runtime.getMonitor();
  const register = monitor.registerResource.bind(monitor);
  const registered = [];
  monitor.registerResource = (request, answered) => {
    const { type, name, parent, aliasesList, object } = request.toObject();
    registered.push(JSON.stringify({ type, name, parent, aliasesList, object }));
    return register(request, answered);
  };
  await ofProject(resolve(main))();
  await pulumi.runtime.disconnect();
  console.log(registered.sort().join('\\n'));
}
void record();
`;

const SECRETS = {
  'triton-serving:s3': { endpoint: 'http://s3:9000', accessKeyId: 'key-of-a-test', secretAccessKey: 'key-of-a-test' },
  'triton-serving:existingCluster': {
    context: 'kind-kind',
    kubeconfig: JSON.stringify({
      contexts: [{ name: 'kind-kind', context: { cluster: 'kind', user: 'admin' } }],
      clusters: [{ name: 'kind', cluster: { server: 'https://127.0.0.1:1' } }],
      users: [{ name: 'admin', user: { token: 'token-of-a-test' } }],
    }),
  },
};

const scratch = new Scratch();
afterAll(() => scratch.clean());

test('a project that installs this package registers the same resources, by the commands of docs/components.md', async () => {
  const [record, folder] = [join(scratch.directory, 'record.cjs'), join(scratch.directory, 'serving')];
  writeFileSync(record, RECORD);
  const env = { ...process.env, SECRETS: JSON.stringify(SECRETS) };
  const { stdout: inRepository } = await exec('node', [record], { cwd: paths.root, env });
  const inPackage = await runBlock('components.md', { name: 'local', directory: paths.root, env }, MOVE_TO_PACKAGE, {
    replace: {
      ...inFolder(folder),
      'pulumi preview --stack $STACK --diff': `node '${record}'`,
    },
  });
  const resources = inRepository.trim().split('\n');
  expect(resources.length).toBeGreaterThan(10);
  expect(inPackage.trim().split('\n').slice(-resources.length)).toEqual(resources);
  for (const [type, load] of [
    ['commonjs', "require('triton-serving/components')"],
    ['module', "await import('triton-serving/components')"],
  ] as const) {
    const script = `console.log(Object.keys(${load}).join())`;
    const { stdout: names } = await exec('node', [`--input-type=${type}`, '-e', script], { cwd: folder });
    const found = names.split(/[,\n]/).filter((name) => !['', 'default', 'module.exports'].includes(name));
    expect([type, ...found.sort()]).toEqual([type, ...Object.keys(components).sort()]);
  }
  // The plugin of the package for other languages prints the port on which it serves.
  const plugin =
    "const { log } = console; console.log = (port) => (log(port), process.exit()); require('./infra/package')";
  const { stdout: port } = await exec('node', ['-e', plugin], { cwd: join(folder, 'node_modules', 'triton-serving') });
  expect(Number(port)).toBeGreaterThan(0);
});

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
