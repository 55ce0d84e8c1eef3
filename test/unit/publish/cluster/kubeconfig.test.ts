import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadKubeconfig } from '../../../../src/publish/cluster/kubeconfig';
import { Scratch } from '../../../support/temp-dir';

const scratch = new Scratch();
const before = { ...process.env };
beforeEach(() => {
  delete process.env['KUBECONFIG'];
  process.env['HOME'] = scratch.directory;
});
afterAll(async () => {
  process.env = before;
  await scratch.clean();
});

const yaml = (cluster: string, contexts = [cluster]): string => `apiVersion: v1
kind: Config
clusters: [{ name: ${cluster}, cluster: { server: "https://${cluster}.example:6443" } }]
users: [{ name: me, user: { token: very-secret-token } }]
contexts:
${contexts.map((name) => `  - { name: ${name}, context: { cluster: ${cluster}, user: me } }`).join('\n')}
current-context: ${contexts[0]}
`;

const file = (name: string, text: string): string => {
  const path = join(scratch.directory, name);
  writeFileSync(path, text);
  return path;
};

const getServer = (kubeconfig?: string, context?: string): string | undefined =>
  loadKubeconfig(kubeconfig, context).getCurrentCluster()?.server;

const expectError = (work: () => unknown, fields: object) =>
  expect(work).toThrow(expect.objectContaining({ name: 'UserError', ...fields }) as Error);

test('loadKubeconfig accepts YAML text, JSON text and a path', () => {
  expect(getServer(yaml('one'))).toBe('https://one.example:6443');
  const json = JSON.stringify({
    clusters: [{ name: 'two', cluster: { server: 'https://two.example:6443' } }],
    contexts: [{ name: 'two', context: { cluster: 'two' } }],
    'current-context': 'two',
  });
  expect(getServer(json)).toBe('https://two.example:6443');
  expect(getServer(file('three', yaml('three')))).toBe('https://three.example:6443');
});

test('loadKubeconfig reads the files of KUBECONFIG, the first of which sets the context, else ~/.kube/config', () => {
  mkdirSync(join(scratch.directory, '.kube'), { recursive: true });
  file('.kube/config', yaml('home'));
  expect(getServer()).toBe('https://home.example:6443');
  const second = yaml('second').replaceAll('name: me', 'name: you').replaceAll('user: me', 'user: you');
  process.env['KUBECONFIG'] = `${file('first', yaml('first'))}:${file('second', second)}`;
  expect(getServer()).toBe('https://first.example:6443');
  expect(getServer(undefined, 'second')).toBe('https://second.example:6443');
});

test('loadKubeconfig uses the given context', () => {
  const config = loadKubeconfig(yaml('one', ['staging', 'prod']), 'prod');
  expect(config.getCurrentContext()).toBe('prod');
});

test.each([
  ['no file at the path', '/nowhere/config', undefined, 'kubeconfig /nowhere/config does not exist'],
  [
    'no such context',
    yaml('one', ['staging', 'prod']),
    'dev',
    'the kubeconfig given has no context "dev"; its contexts are staging, prod',
  ],
  [
    'no current context',
    yaml('one').replace(/current-context.*/, ''),
    undefined,
    'the kubeconfig given has no context ""; its contexts are one',
  ],
  ['nothing in it', '{}', 'dev', 'the kubeconfig given has no context "dev"; it has no contexts'],
  [
    'a context without its cluster',
    yaml('one').replace('clusters: [{ name: one,', 'clusters: [{ name: other,'),
    undefined,
    'the kubeconfig given: context "one" names no cluster with a server address',
  ],
])('loadKubeconfig rejects: %s', (_, kubeconfig, context, message) => {
  expectError(() => loadKubeconfig(kubeconfig, context), { message });
});

test('loadKubeconfig names the places it searched if no kubeconfig exists', () => {
  process.env['HOME'] = join(scratch.directory, 'empty');
  expectError(() => loadKubeconfig(), {
    message: `no kubeconfig found: KUBECONFIG is not set, and ${join(scratch.directory, 'empty')}/.kube/config does not exist`,
    hint: expect.stringContaining('aws eks update-kubeconfig') as string,
  });
  process.env['KUBECONFIG'] = '/nowhere/config';
  expect(() => loadKubeconfig()).toThrow('KUBECONFIG names /nowhere/config, which does not exist');
});

test('loadKubeconfig reports the line of a syntax error without the text, which may be secret', async () => {
  const broken = `${yaml('one')}users: [ { token: very-secret-token\n`;
  const error = await Promise.resolve(broken)
    .then(loadKubeconfig)
    .catch((caught: unknown) => caught);
  expect(error).toMatchObject({
    name: 'UserError',
    message: expect.stringMatching(/^the kubeconfig given is not a valid kubeconfig \(line \d+: /) as string,
  });
  expect(JSON.stringify(error, Object.getOwnPropertyNames(error as object))).not.toContain('very-secret');
});
