import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { KubernetesObject } from '@kubernetes/client-node';
import { packageSchema } from '../../infra/package/schema';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { ensureKubernetesPlugin, OTHER_LANGUAGES, USUAL_LANGUAGES } from '../../tools/toolchain/pulumi';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { whyNoEngines } from '../support/local-stack';
import { packageEnvironment, PackageProgram, PLUGIN } from '../support/package-program';
import { IS_LONG } from '../support/soak';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;

const LANGUAGES = IS_LONG ? OTHER_LANGUAGES : USUAL_LANGUAGES;

/** Kinds of the objects that a TritonServer without monitoring and autoscaling has. */
const KINDS = [
  ['v1', 'Secret'],
  ['v1', 'Service'],
  ['v1', 'ServiceAccount'],
  ['apps/v1', 'Deployment'],
  ['networking.k8s.io/v1', 'NetworkPolicy'],
  ['policy/v1', 'PodDisruptionBudget'],
] as const;

describeUnless(
  whyNoEngines('pulumi-language-yaml', 'pulumi-language-python'),
  'the package for other languages',
  () => {
    const scratch = new Scratch();
    let plane: ControlPlane;
    let env: NodeJS.ProcessEnv;

    beforeAll(async () => {
      plane = await ControlPlane.start(scratch);
      for (const index of [0, 1]) await plane.addGpuNode(`gpu-${index}`);
      const kubeconfig = { KUBECONFIG: plane.access.kubeconfigFile() };
      const plugins = [await ensureKubernetesPlugin()];
      env = await packageEnvironment(scratch, LANGUAGES, { plugins, env: kubeconfig });
    }, BUILD_MS);
    afterAll(() => scratch.clean());

    const folder = (name: string): string => join(scratch.directory, name);

    /** Text of every file below a folder. */
    const textBelow = (directory: string): string =>
      readdirSync(directory, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
        .join('\n');

    /** What a program determines of the objects in a namespace. */
    const objects = async (namespace: string): Promise<unknown[]> => {
      const found: unknown[] = [];
      for (const [apiVersion, kind] of KINDS) {
        const { items } = await plane.client.objects.list(apiVersion, kind, namespace);
        for (const { metadata, ...rest } of items as (KubernetesObject & Record<string, object | undefined>)[]) {
          if (kind === 'ServiceAccount' && metadata?.name === 'default') continue;
          const { name, labels, annotations } = metadata ?? {};
          // The cluster chooses the address.
          const spec = { ...rest['spec'], clusterIP: undefined, clusterIPs: undefined };
          const keys = Object.keys(rest['data'] ?? {});
          found.push({ kind, name, labels, annotations, spec, keys });
        }
      }
      // The name of the ConfigMap depends on the bytes of the agent's program, and those on where npm put its dependencies.
      return JSON.parse(JSON.stringify(found).replace(/(-agent)-[0-9a-f]{8}/g, '$1')) as unknown[];
    };

    test(
      'programs in TypeScript, Python and YAML create the same objects, and then change nothing',
      async () => {
        const results: { objects: unknown[]; outputs: unknown }[] = [];
        for (const [example, runtime] of [
          ['typescript', 'nodejs'],
          ['python', 'python'],
          ['yaml', 'yaml'],
        ] as const) {
          const program = await PackageProgram.copy(example, runtime, folder(example), env);
          const stack = ['--stack', program.stack];
          await program.pulumi('up', ...stack, '--yes');
          await program.pulumi('up', ...stack, '--yes', '--skip-preview', '--expect-no-changes');
          expect(await plane.readyPods('faces')).toHaveLength(2);
          const outputs = await program.json('stack', 'output', '--json');
          results.push({ objects: await objects('faces'), outputs });
          await program.pulumi('destroy', ...stack, '--yes');
          expect((await plane.client.core.listNamespace()).items.map(({ metadata }) => metadata?.name)).not.toContain(
            'faces',
          );
        }
        const [first, ...others] = results;
        expect(first?.outputs).toEqual({ url: 'http://faces.faces.svc:8000', deployment: 'faces/faces' });
        expect(first?.objects).toContainEqual(
          expect.objectContaining({
            kind: 'Deployment',
            annotations: expect.objectContaining({ team: 'vision' }) as object,
          }),
        );
        for (const other of others) expect(other).toEqual(first);
      },
      BUILD_MS,
    );

    test('wrong arguments are reported together, by their names, and secret ones without their values', async () => {
      const program = await PackageProgram.copy('yaml', 'yaml', folder('wrong'), env);
      program.edit((text) =>
        text
          .replace('replicas: 2', 'replicas: 2000\n      pod:\n        fn::secret: { runtimeClassName: of-a-test }')
          .replace('cpu: 4', 'cpu: 1000'),
      );
      const refused = String(
        await program.pulumi('preview', '--stack', program.stack).catch((error: unknown) => error),
      );
      expect(refused).toMatch(/property replicas .*: is 2000; allowed: a whole number from 0 to 1000\n/);
      expect(refused).toMatch(/property resources.cpu .*: is 1000; allowed: a whole number from 1 to 256\n/);
      expect(refused).toMatch(/property pod \(secret\) has a problem: is wrong; allowed: a value that is not secret/);
      expect(refused).not.toContain('of-a-test');
    });

    test('components that are created at the same time have their own children and options', async () => {
      const program = await PackageProgram.copy('yaml', 'yaml', folder('several'), env);
      const nodeClass = '{ group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }';
      program.edit((text) => {
        const [, server = ''] = /( {2}faces:\n.*)outputs:/s.exec(text) ?? [];
        const other = server
          .replace('faces:', 'voices:')
          .replace(/ {6}transform:.*/s, '    options: { protect: true }\n');
        const pool = `  pool:\n    type: triton-serving:GpuNodePool\n    properties: { instanceTypes: [g6.xlarge], nodeClass: ${nodeClass} }\n`;
        return text.replace('outputs:', `${other}${pool}outputs:`);
      });
      const { steps } = await program.json<{
        steps: { urn: string; newState: { parent?: string; protect?: boolean } }[];
      }>('preview', '--json');
      const children = (kind: string, name: string): unknown[] =>
        steps
          .filter(({ newState }) => newState.parent?.endsWith(`:${kind}::${name}`))
          .map(({ urn, newState }) => [
            urn.split('::').slice(-2).join(' ').split('$').at(-1),
            newState.protect ?? false,
          ]);
      const ofFaces = JSON.stringify(children('infra:TritonServer', 'faces'));
      expect(ofFaces).toContain('["kubernetes:apps/v1:Deployment faces",false]');
      expect(children('infra:TritonServer', 'voices')).toHaveLength(children('infra:TritonServer', 'faces').length);
      expect(children('infra:TritonServer', 'voices')).toContainEqual(['kubernetes:apps/v1:Deployment voices', true]);
      expect(children('index:GpuNodePool', 'pool')).toEqual([['kubernetes:karpenter.sh/v1:NodePool pool', false]]);
    });

    test(
      'a preview leaves out the objects that depend on a value that it does not know yet, and says so',
      async () => {
        const program = await PackageProgram.copy('yaml', 'yaml', folder('unknown'), env);
        const { version } = await ensureKubernetesPlugin();
        const addNamespace = (text: string, name: string): string =>
          text.replace(
            'resources:\n',
            `resources:\n  ${name}:\n    type: kubernetes:core/v1:Namespace\n    properties:\n      metadata:\n        name: ${name}\n    options:\n      version: ${version}\n`,
          );
        program.edit((text) =>
          addNamespace(text, 'platform').replace(
            '      replicas: 2',
            '      replicas: 0\n      namespace: { name: "${platform.id}", create: false }',
          ),
        );
        expect(await program.pulumi('preview', '--stack', program.stack)).toContain(
          'the preview leaves out the objects of faces, because namespace is not known yet',
        );
        await program.pulumi('up', '--stack', program.stack, '--yes', '--skip-preview');
        const { items } = await plane.client.apps.listDeploymentForAllNamespaces();
        expect(items.map(({ metadata }) => metadata?.name)).toEqual(['faces']);

        // Texts in the contents of objects need not be known, and may be secret.
        program.edit((text) =>
          addNamespace(text, 'other')
            .replace('      replicas: 0', '      replicas: 0\n      environment: { OTHER: "${other.id}" }')
            .replace('team: vision', 'other: ${other.id}\n              token: { "fn::secret": of-a-test }'),
        );
        const preview = await program.pulumi('preview', '--stack', program.stack);
        expect(preview).toMatch(/\+ 1 to create\n\s*~ 1 to update\n\s*2 changes\./);
        await program.pulumi('up', '--stack', program.stack, '--yes');
        expect(await program.pulumi('stack', 'export', '--stack', program.stack)).not.toContain('of-a-test');
        const [changed] = (await plane.client.apps.listDeploymentForAllNamespaces()).items;
        expect(changed?.metadata?.annotations).toMatchObject({ other: 'other', token: 'of-a-test' });

        // Other arguments hide the objects, until what gives the value was created.
        program.edit((text) =>
          addNamespace(text, 'clients').replace('clientNamespaces: [web]', 'clientNamespaces: ["${clients.id}"]'),
        );
        expect(await program.pulumi('preview', '--stack', program.stack)).toMatch(/- \d+ to delete/);
        const urn = `urn:pulumi:${program.stack}::faces::kubernetes:core/v1:Namespace::clients`;
        await program.pulumi('up', '--stack', program.stack, '--yes', '--target', urn);
        expect(await program.pulumi('preview', '--stack', program.stack)).toMatch(/~ 1 to update\n\s*\d+ unchanged/);
        await program.pulumi('destroy', '--stack', program.stack, '--yes');
      },
      BUILD_MS,
    );

    describe('SDKs', () => {
      let schema: string;

      beforeAll(async () => {
        const { stdout } = await exec('pulumi', ['package', 'get-schema', PLUGIN], { cwd: scratch.directory, env });
        // .NET's generator downloads a picture.
        const server = createServer((_, response) => response.end('a picture'));
        await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
        scratch.defer(() => void server.close());
        const logoUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/logo.png`;
        schema = folder('schema.json');
        writeFileSync(schema, JSON.stringify({ ...(JSON.parse(stdout) as object), logoUrl }));
      });

      test('the CLI reads the schema from the folder with PulumiPlugin.yaml', () => {
        const { version } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as { version: string };
        const { resources, types } = packageSchema(version) as Record<string, object>;
        const read = JSON.parse(readFileSync(schema, 'utf8')) as { resources: object; types: object };
        expect(read).toMatchObject({ name: 'triton-serving', version });
        expect(Object.keys(read.resources)).toEqual(expect.arrayContaining(Object.keys(resources ?? {})));
        expect(Object.keys(read.types)).toEqual(expect.arrayContaining(Object.keys(types ?? {})));
      });

      test.each(['nodejs', ...LANGUAGES.filter((language) => language !== 'yaml')])(
        'the CLI generates the one for %s',
        async (language) => {
          const out = folder('sdk');
          await exec('pulumi', ['package', 'gen-sdk', schema, '--language', language, '--out', out], {
            cwd: scratch.directory,
            env,
          });
          const text = textBelow(join(out, language));
          for (const name of ['TritonServer', 'ModelRepository', 'TritonAccess', 'GpuNodePool']) {
            expect(text).toContain(`triton-serving:index:${name}`);
          }
          expect(text).toContain('Number of replicas if autoscaling is empty');
        },
      );

      test(
        'the one for Go compiles',
        async () => {
          const directory = join(folder('sdk'), 'go', 'tritonserving');
          const pins = join(paths.tools, 'toolchain', 'go', 'pulumi');
          const sdk = /pkg\/v3 (v\S+)/.exec(readFileSync(join(pins, 'go.mod'), 'utf8'))?.[1];
          const module = /"(\S+)\/internal"/.exec(readFileSync(join(directory, 'tritonServer.go'), 'utf8'))?.[1];
          writeFileSync(
            join(directory, 'go.mod'),
            `module ${module}\n\ngo 1.25.11\n\nrequire github.com/pulumi/pulumi/sdk/v3 ${sdk}\n`,
          );
          writeFileSync(join(directory, 'go.sum'), readFileSync(join(pins, 'go.sum')));
          const goEnv = { ...env, GOWORK: 'off', CGO_ENABLED: '0' };
          await exec('go', ['build', '-mod=mod', './...'], { cwd: directory, env: goEnv });
        },
        BUILD_MS,
      );
    });
  },
);
