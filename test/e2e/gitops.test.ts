import { readFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { ensureKubernetes } from '../../tools/toolchain/kubernetes';
import { whyNoGo } from '../../tools/toolchain/go';
import { ClusterProcesses, startApiServer } from '../support/api-server';
import { describeUnless } from '../support/describe-unless';
import { whyMissing } from '../support/doc-commands';
import { getManifests, writeManifests } from '../support/manifests';
import { fences } from '../support/markdown';
import { registeredStack } from '../support/registered-stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const BLOCKS = fences(readFileSync(join(paths.root, 'docs', 'guides', 'gitops.md'), 'utf8'));

/** A block of the guide, by its note, or by its language. */
const block = (name: string): string => {
  const found = BLOCKS.find(({ note, language }) => note === name || (note === '' && language === name));
  if (found === undefined) throw new Error(`the guide has no block ${name}`);
  return found.text;
};

/** The settings of a block, as keys of this project. */
const settings = (name: string): Record<string, unknown> => {
  const { config } = load(block(name)) as { config: Record<string, unknown> };
  return Object.fromEntries(Object.entries(config).map(([key, value]) => [key.replace('triton-serving:', ''), value]));
};

/** What Pulumi renders is what it would apply (test/e2e/policy.test.ts), so the objects come from the program here. */
describeUnless(whyNoGo(['kubernetes']) ?? whyMissing('kubectl'), 'docs/guides/gitops.md', () => {
  const scratch = new Scratch();
  let kubectl: (...args: string[]) => Promise<string>;
  let run: (script: string) => Promise<string>;
  let files: string[];

  beforeAll(async () => {
    const autoscaling = { kind: 'keda', minReplicas: 3, maxReplicas: 9 };
    const stack = await registeredStack('staging', { ...settings('stack'), ...settings('publisher'), autoscaling });
    const manifests = getManifests(stack.resources);
    expect(manifests.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['Deployment', 'ConfigMap', 'Service']));
    expect(manifests.filter(({ kind }) => kind === 'Secret')).toEqual([]);
    const folder = join(scratch.directory, 'manifests');
    mkdirSync(folder);
    // Karpenter, EKS and KEDA define these kinds.
    files = writeManifests(
      manifests.filter(({ kind }) => !['NodePool', 'NodeClass', 'ScaledObject'].includes(kind)),
      folder,
    );
    const access = await startApiServer(await ClusterProcesses.in(scratch), { programs: await ensureKubernetes() });
    const env = { ...process.env, KUBECONFIG: access.kubeconfigFile() };
    run = async (script) => (await exec('bash', ['-euo', 'pipefail', '-c', script], { env })).stdout;
    kubectl = async (...args) => (await exec('kubectl', args, { env })).stdout;
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test('the files are applied on the server, and again without a change of what the autoscaler chose', async () => {
    // The namespace first, as Argo CD and Flux order the kinds.
    const [namespaces, others] = [true, false].map((isFirst) =>
      files.filter((file) => file.includes('/namespace-') === isFirst),
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
      run(`kubectl ${command} --filename - <<'YAML' 2>&1\n${block(name)}\nYAML`);
    expect((await from('apply', 'account')).trim().split('\n')).toEqual([
      'namespace/triton-publish created',
      'serviceaccount/publisher created',
      'rolebinding.rbac.authorization.k8s.io/publish-job created',
    ]);
    // As after two builds of the image.
    for (let build = 1; build <= 2; build += 1)
      expect(await from('create', 'job')).toMatch(/^job\.batch\/publish-\w+ created\n$/);
    const flags = (load(block('job')) as { spec: { template: { spec: { containers: [{ args: string[] }] } } } }).spec
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

  test.each(['argo', 'flux'])('%s: the object names the folder that the settings name', (name) => {
    const { spec } = load(block(name)) as { spec: { path?: string; source?: { path: string } } };
    expect((spec.path ?? spec.source?.path)?.replace(/^\.\//, '')).toBe(settings('stack')['renderManifestsTo']);
  });
});
