import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { ensureKubernetesPlugin, OTHER_LANGUAGES, USUAL_LANGUAGES } from '../../tools/toolchain/pulumi';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { packageEnvironment, PackageProgram, PLUGIN } from '../support/package-program';
import { IS_LONG } from '../support/soak';
import { type StateResource, whyNoEngines } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;

/** What a user adds to the program in Python. */
const TRANSFORM = `
def annotate(args):
    if args.type_ == "kubernetes:apps/v1:Deployment":
        metadata = {**args.props["metadata"], "annotations": {"team": "vision"}}
        return pulumi.ResourceTransformResult({**args.props, "metadata": metadata}, args.opts)


`;
const OPTIONS = '\n    opts=pulumi.ResourceOptions(transforms=[annotate]),';

const LANGUAGES = IS_LONG ? OTHER_LANGUAGES : USUAL_LANGUAGES;

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

    /** Type, name and inputs of each object of a stack, without what is random. */
    const objects = async (program: PackageProgram): Promise<string[]> => {
      const { deployment } = await program.json<{ deployment: { resources: StateResource[] } }>('stack', 'export');
      return deployment.resources
        .filter(({ id, type }) => id !== undefined && !type.startsWith('pulumi:'))
        .map(({ type, urn, inputs }) => `${type} ${urn.split('::').at(-1)} ${JSON.stringify(inputs)}`)
        .map((text) =>
          text.replace(/-[0-9a-f]{8}"/g, '-RANDOM"').replace(/"ciphertext":"[^"]*"/g, '"ciphertext":"RANDOM"'),
        )
        .sort();
    };

    test(
      'programs in TypeScript, Python and YAML create the same objects, and then change nothing',
      async () => {
        const results: { objects: string[]; outputs: unknown }[] = [];
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
          results.push({ objects: await objects(program), outputs });
          await program.pulumi('destroy', ...stack, '--yes');
        }
        const [first, ...others] = results;
        expect(first?.outputs).toEqual({ url: 'http://faces.faces.svc:8000' });
        expect(first?.objects).toContainEqual(expect.stringMatching(/^kubernetes:apps\/v1:Deployment faces /));
        for (const other of others) expect(other).toEqual(first);
      },
      BUILD_MS,
    );

    test("a program changes objects of a component with Pulumi's option transforms", async () => {
      const program = await PackageProgram.copy('python', 'python', folder('transforms'), env);
      program.edit(
        (text) =>
          text.replace('faces = TritonServer(', `${TRANSFORM}faces = TritonServer(`).replace(/\n\)/, `${OPTIONS}\n)`),
        '__main__.py',
      );
      const { steps } = await program.json<{ steps: { urn: string; newState: { inputs: object } }[] }>(
        'preview',
        '--json',
      );
      const deployment = steps.find(({ urn }) => urn.endsWith('Deployment::faces'))?.newState;
      expect(deployment).toMatchObject({ inputs: { metadata: { name: 'faces', annotations: { team: 'vision' } } } });
    });

    test('wrong arguments are reported together, by their names, and secret ones without their values', async () => {
      const program = await PackageProgram.copy('yaml', 'yaml', folder('wrong'), env);
      const refused = async (): Promise<string> =>
        String(await program.pulumi('preview', '--stack', program.stack).catch((error: unknown) => error));
      program.edit((text) => text.replace('replicas: 2', 'replicas: 2000').replace('cpu: 4', 'cpu: 1000'));
      const wrong = await refused();
      expect(wrong).toContain('TritonServer faces: replicas: is 2000; allowed: a whole number from 0 to 1000');
      expect(wrong).toContain('TritonServer faces: resources.cpu: is 1000; allowed: a number from 0.1 to 256');
      program.edit((text) => text.replace('replicas: 2000', 'replicas: 2\n      image: { "fn::secret": of-a-test }'));
      const secret = await refused();
      expect(secret).toContain('TritonServer faces: image: is secret; allowed: a value that is not secret');
      expect(secret).not.toContain('of-a-test');
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
          addNamespace(text, 'web')
            .replace('clientNamespaces: [web]', 'clientNamespaces: ["${web.id}"]')
            .replace('replicas: 2', 'replicas: 0'),
        );
        expect(await program.pulumi('preview', '--stack', program.stack)).toContain(
          'the preview leaves out the objects of faces, because clientNamespaces is not known yet',
        );
        await program.pulumi('up', '--stack', program.stack, '--yes', '--skip-preview');
        const { items } = await plane.client.apps.listDeploymentForAllNamespaces();
        expect(items.map(({ metadata }) => metadata?.name)).toEqual(['faces']);

        // Texts in the contents of objects need not be known, and may be secret.
        program.edit((text) =>
          addNamespace(text, 'other').replace(
            '      replicas: 0',
            '      replicas: 0\n      environment: { OTHER: "${other.id}" }\n      secretEnvironment: { TOKEN: { "fn::secret": of-a-test } }',
          ),
        );
        const preview = await program.pulumi('preview', '--stack', program.stack);
        expect(preview).toMatch(/\+ 2 to create\n\s*~ 1 to update\n\s*3 changes\./);
        await program.pulumi('up', '--stack', program.stack, '--yes');
        expect(await program.pulumi('stack', 'export', '--stack', program.stack)).not.toContain('of-a-test');

        // The preview cannot know that the objects exist.
        program.edit((text) => addNamespace(text, 'clients').replace('${web.id}', '${clients.id}'));
        expect(await program.pulumi('preview', '--stack', program.stack)).toMatch(/- \d+ to delete/);
        const kept = await program.pulumi('up', '--stack', program.stack, '--yes', '--skip-preview');
        expect(kept).toMatch(/\+ 1 created\n\s*~ 1 updated\n\s*2 changes\. \d+ unchanged/);
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

      test.each(['nodejs', ...LANGUAGES.filter((language) => language !== 'yaml')])(
        'the CLI generates the one for %s',
        async (language) => {
          const out = folder('sdk');
          await exec('pulumi', ['package', 'gen-sdk', schema, '--language', language, '--out', out], {
            cwd: scratch.directory,
            env,
          });
          for (const text of ['TritonServer', 'ModelRepository', 'TritonAccess', 'Number of replicas if autoscaling']) {
            await exec('grep', ['-rqF', text, join(out, language)]);
          }
        },
      );
    });
  },
);
