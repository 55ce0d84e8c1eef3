import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { awsPlugins, whyNoAwsStack } from '../support/aws-stack';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { defineKarpenterKinds, keepPoolsReady } from '../support/karpenter';
import { fences } from '../support/markdown';
import { testMoto } from '../support/moto';
import { packageEnvironment, PackageProgram } from '../support/package-program';
import type { StateResource } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;

const PROVIDER = 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/ABCD';

/** The program of docs/infrastructure.md. */
const PYTHON = fences(readFileSync(join(paths.root, 'docs', 'infrastructure.md'), 'utf8')).find(({ text }) =>
  text.startsWith('from pulumi_triton_serving'),
)?.text;

const TYPESCRIPT = `
import { GpuNodePool, ModelRepository, TritonAccess, TritonServer } from '@pulumi/triton-serving';

const models = new ModelRepository('faces', { modelRepositoryPrefix: 'faces' });
const access = new TritonAccess('faces', {
  bucketArn: models.bucketArn,
  keyArn: models.keyArn,
  modelRepositoryPrefix: 'faces',
  oidcProviderArn: '${PROVIDER}',
  server: 'faces',
});
new TritonServer('faces', { modelRepository: models.url, region: models.region, roleArn: access.roleArn });
new GpuNodePool('faces-pool', { instanceTypes: ['g6.xlarge'], nodeClass: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'default' } });
`;

const YAML = `
  models:
    type: triton-serving:ModelRepository
    name: faces
    properties: { modelRepositoryPrefix: faces }
  access:
    type: triton-serving:TritonAccess
    name: faces
    properties:
      bucketArn: \${models.bucketArn}
      keyArn: \${models.keyArn}
      modelRepositoryPrefix: faces
      oidcProviderArn: ${PROVIDER}
      server: faces
  faces:
    type: triton-serving:TritonServer
    properties: { modelRepository: "\${models.url}", region: "\${models.region}", roleArn: "\${access.roleArn}" }
  faces-pool:
    type: triton-serving:GpuNodePool
    properties:
      instanceTypes: [g6.xlarge]
      nodeClass: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }
`;

/** Example, its runtime in Pulumi's words, its file, and what that becomes. All objects have names with "faces". */
const PROGRAMS = [
  { example: 'typescript', runtime: 'nodejs', file: 'index.ts', change: () => TYPESCRIPT },
  {
    example: 'python',
    runtime: 'python',
    file: '__main__.py',
    change: () =>
      `oidc_provider_arn = "${PROVIDER}"\n${PYTHON?.replace('"faces")', '"faces", bucket_force_destroy=True)')}
from pulumi_triton_serving import GpuNodePool
node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
GpuNodePool("faces-pool", instance_types=["g6.xlarge"], node_class=node_class)
`,
  },
  {
    example: 'yaml',
    runtime: 'yaml',
    file: 'Pulumi.yaml',
    change: (text: string) => text.replace(/^resources:\n.*/ms, `resources:\n${YAML}`),
  },
] as const;

describeUnless(whyNoAwsStack(), 'the package for other languages on a mock of AWS', () => {
  const scratch = new Scratch();
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    const plane = await ControlPlane.start(scratch);
    await defineKarpenterKinds(plane);
    keepPoolsReady(plane, scratch);
    for (const index of [0, 1]) await plane.addGpuNode(`gpu-${index}`);
    const moto = await testMoto(scratch, plane.access);
    const more = { ...moto.env, KUBECONFIG: plane.access.kubeconfigFile() };
    env = await packageEnvironment(scratch, ['python', 'yaml'], { plugins: await awsPlugins(), env: more });
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  /** Type, name and inputs of each object, without the name of the stack and what is random. */
  const objects = async (program: PackageProgram): Promise<string[]> => {
    const { deployment } = await program.json<{ deployment: { resources: StateResource[] } }>('stack', 'export');
    return deployment.resources
      .filter(({ id, type }) => id !== undefined && !type.startsWith('pulumi:'))
      .map(({ type, urn, inputs }) => `${type} ${urn.split('::').at(-1)} ${JSON.stringify(inputs)}`)
      .map((text) =>
        text
          .replaceAll(program.stack, 'faces')
          .replace(/\b(faces\S*?|model-control)-[0-9a-f]{7,8}\b/g, '$1-RANDOM')
          .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'RANDOM')
          .replace(/"ciphertext":"[^"]*"/g, '"ciphertext":"RANDOM"'),
      )
      .sort();
  };

  test(
    'programs in TypeScript, Python and YAML create the same objects in AWS and Kubernetes, and then change nothing',
    async () => {
      const create = async ({ example, runtime, file, change }: (typeof PROGRAMS)[number]): Promise<string[]> => {
        const program = await PackageProgram.copy(example, runtime, join(scratch.directory, example), env);
        program.edit((text) => change(text).replace(/(?<!^name: )faces/gm, example), file);
        const stack = ['--stack', program.stack];
        await program.pulumi('config', 'set', ...stack, 'aws:region', 'us-east-1');
        await program.pulumi('up', ...stack, '--yes');
        await program.pulumi('up', ...stack, '--yes', '--skip-preview', '--expect-no-changes');
        const created = await objects(program);
        await program.pulumi('destroy', ...stack, '--yes');
        return created;
      };
      // At the same time, because each waits a minute for the lifecycle rules of its buckets.
      const [first = [], ...others] = await Promise.all(PROGRAMS.map(create));
      expect(first.map((text) => text.split(' ')[0])).toEqual(
        expect.arrayContaining([
          'aws:iam/role:Role',
          'aws:kms/key:Key',
          'aws:s3/bucket:Bucket',
          'kubernetes:apps/v1:Deployment',
          'kubernetes:karpenter.sh/v1:NodePool',
        ]),
      );
      for (const other of others) expect(other).toEqual(first);
    },
    BUILD_MS,
  );
});
