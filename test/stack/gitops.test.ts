import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformSync } from 'esbuild';
import { load } from 'js-yaml';
import * as components from '../../infra/components';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { ensureKubernetes } from '../../tools/toolchain/kubernetes';
import { ensureKubernetesPlugin } from '../../tools/toolchain/pulumi';
import { ClusterProcesses, startApiServer } from '../support/api-server';
import { describeUnless } from '../support/describe-unless';
import { whyMissing } from '../support/doc-commands';
import { whyNoEngines } from '../support/stack';
import { fences } from '../support/markdown';
import { programEnvironment } from '../support/pulumi';
import { registered } from '../support/registered-stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const BLOCKS = fences(readFileSync(join(paths.root, 'docs', 'ci.md'), 'utf8'));

/** A block of the guide, by its note, or by its language. */
const block = (name: string): string => {
  const found = BLOCKS.find(({ note, language }) => note === name || (note === '' && language === name));
  if (found === undefined) throw new Error(`the guide has no block ${name}`);
  return found.text;
};

/** An object of examples/gitops, to which the guide links. */
const example = (name: string): string => readFileSync(join(paths.root, 'examples', 'gitops', `${name}.yaml`), 'utf8');

/** The CommonJS form of a program in the guide. */
const compile = (name: string): string => transformSync(block(name), { loader: 'ts', format: 'cjs' }).code;

/** Runs the program with a real Pulumi, in a folder of its own. Returns the files that it writes. */
async function writeFiles(scratch: Scratch): Promise<string[]> {
  const { program, env } = await programEnvironment(scratch, { plugins: [await ensureKubernetesPlugin()] });
  const cwd = join(scratch.directory, 'gitops');
  mkdirSync(join(cwd, 'node_modules'), { recursive: true });
  symlinkSync(join(paths.root, 'node_modules', '@pulumi'), join(cwd, 'node_modules', '@pulumi'));
  symlinkSync(paths.root, join(cwd, 'node_modules', 'triton-serving'));
  writeFileSync(join(cwd, 'Pulumi.yaml'), 'name: gitops\nruntime: nodejs\n');
  writeFileSync(join(cwd, 'package.json'), '{ "name": "gitops", "version": "0.0.1", "main": "index.js" }');
  writeFileSync(join(cwd, 'index.js'), compile('program'));
  for (const args of [
    ['stack', 'init', 'prod'],
    ['up', '--yes', '--skip-preview'],
  ])
    await exec(program, [...args, '--non-interactive'], { cwd, env });
  const folder = join(cwd, 'manifests');
  return (readdirSync(folder, { recursive: true }) as string[])
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => join(folder, file));
}

const getKind = (file: string): string => (load(readFileSync(file, 'utf8')) as { kind: string }).kind;

describeUnless(whyNoEngines() ?? whyMissing('kubectl'), 'docs/ci.md', () => {
  const scratch = new Scratch();
  let kubectl: (...args: string[]) => Promise<string>;
  let run: (script: string) => Promise<string>;
  let files: string[];

  beforeAll(async () => {
    const all = await writeFiles(scratch);
    const kinds = all.map(getKind);
    expect(kinds).toEqual(expect.arrayContaining(['Deployment', 'ConfigMap', 'Service', 'ScaledObject']));
    expect(kinds).not.toContain('Secret');
    // KEDA defines this kind.
    files = all.filter((file) => getKind(file) !== 'ScaledObject');
    const access = await startApiServer(await ClusterProcesses.in(scratch), { programs: await ensureKubernetes() });
    const env = { ...process.env, KUBECONFIG: access.kubeconfigFile() };
    run = async (script) => (await exec('bash', ['-euo', 'pipefail', '-c', script], { env })).stdout;
    kubectl = async (...args) => (await exec('kubectl', args, { env })).stdout;
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test('the files are applied on the server, and again without a change of what the autoscaler chose', async () => {
    // The namespace first, as Argo CD and Flux order the kinds.
    const [namespaces, others] = [true, false].map((isFirst) =>
      files.filter((file) => (getKind(file) === 'Namespace') === isFirst),
    ) as [string[], string[]];
    for (const group of [namespaces, others]) {
      await kubectl('apply', '--server-side', ...group.flatMap((file) => ['--filename', file]));
    }
    await kubectl('--namespace', 'triton', 'scale', 'deployment', 'triton', '--replicas', '7');
    const again = await kubectl('apply', '--server-side', ...others.flatMap((file) => ['--filename', file]));
    expect(again.trim().split('\n')).toHaveLength(others.length);
    const query = ['get', 'deployment', 'triton', '--output', 'jsonpath={.spec.replicas}'];
    expect(await kubectl('--namespace', 'triton', ...query)).toBe('7');
  });

  test('the Job is accepted in its namespace, whose pods are restricted', async () => {
    const from = (command: string, name: string): Promise<string> =>
      run(`kubectl ${command} --filename - <<'YAML' 2>&1\n${example(name)}\nYAML`);
    expect((await from('apply', 'account')).trim().split('\n')).toEqual([
      'namespace/triton-publish created',
      'serviceaccount/publisher created',
      'rolebinding.rbac.authorization.k8s.io/publish-job created',
    ]);
    // As after two builds of the image.
    for (let build = 1; build <= 2; build += 1)
      expect(await from('create', 'job')).toMatch(/^job\.batch\/publish-\w+ created\n$/);
    const flags = (load(example('job')) as { spec: { template: { spec: { containers: [{ args: string[] }] } } } }).spec
      .template.spec.containers[0].args;
    const { stdout } = await exec('node', [join(paths.root, 'scripts', 'run.mjs'), 'sync-models', '--help']);
    for (const flag of flags.filter((text) => text.startsWith('--'))) expect(stdout).toContain(`  ${flag} `);
  });

  test('the service account of the Job may publish, and nothing else', async () => {
    const may = async (...question: string[]): Promise<string> => {
      const as = '--as=system:serviceaccount:triton-publish:publisher';
      const asked = kubectl('auth', 'can-i', ...question, '--namespace', 'triton', as);
      return (await asked.catch(() => 'no')).trim();
    };
    expect(await may('list', 'pods')).toBe('yes');
    expect(await may('create', 'pods', '--subresource=portforward')).toBe('yes');
    expect(await may('get', 'secrets')).toBe('no');
    expect(await may('delete', 'pods')).toBe('no');
  });

  test('the role of the Job trusts its service account', async () => {
    const made = await registered(() => {
      // eslint-disable-next-line @typescript-eslint/no-implied-eval
      const program = new Function('require', 'module', compile('publisher')) as (...args: unknown[]) => void;
      const module = { exports: {} };
      program(() => components, module);
      return module.exports;
    }, 'gitops');
    const { subjects } = load(example('account').split('---').at(-1) ?? '') as {
      subjects: { name: string; namespace: string }[];
    };
    const [account] = subjects;
    expect(JSON.stringify(made.only('aws:iam/role:Role').inputs['assumeRolePolicy'])).toContain(
      `system:serviceaccount:${account?.namespace}:${account?.name}`,
    );
  });

  test.each(['argo', 'flux'])('%s: the object names the folder to which the program writes', (name) => {
    const { spec } = load(example(name)) as { spec: { path?: string; source?: { path: string } } };
    const path = (spec.path ?? spec.source?.path)?.replace(/^\.\//, '');
    expect(block('program')).toContain(`renderYamlToDirectory: '${path}'`);
  });
});
