import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { awsPlugins, awsStack, HERE, ONE_NODE_GROUP, whyNoAwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { LOCAL_KEYS } from '../support/local-stack';
import { loadState, saveState, unreleased } from '../support/stack-states';
import { Scratch } from '../support/temp-dir';
import { TestStack, type StackConfig } from '../support/stack';
import { testMoto } from '../support/moto';

const BUILD_MS = 60 * 60_000;
const ADMINS = ['arn:aws:iam::123456789012:role/admins'];

/** The stacks whose states are kept. `kubeconfig` is added to the stack with an existing cluster. */
const STATES: Readonly<Record<string, { stack: string; config: StackConfig; nodeLabels?: Record<string, string> }>> = {
  staging: { stack: 'staging', config: { publicAccessCidrs: [HERE], clusterAdmins: ADMINS } },
  prod: { stack: 'prod', config: { publicAccessCidrs: [HERE] } },
  'node-groups': {
    stack: 'staging',
    config: {
      publicAccessCidrs: [HERE],
      autoMode: false,
      gpuNodePools: [{ name: 'al2023', ...ONE_NODE_GROUP, dcgmExporter: true }],
    },
    nodeLabels: { 'triton-serving/gpu-pool': 'al2023' },
  },
  existing: {
    stack: 'local',
    config: {
      kubeContext: 'admin',
      gpusPerPod: 1,
      replicas: 2,
      bucketName: 'models',
      s3Endpoint: 'http://127.0.0.1:9',
    },
  },
};

const MAKE = process.env['UPDATE_STATES'] === '1';
/** What the kept states have instead of the values of one run. */
const SERVER = 'https://127.0.0.1:1';
const CERTIFICATE = readFileSync(join(paths.root, 'test', 'data', 'states', 'certificate.pem')).toString('base64');

/**
 * Previews today's program on states that the last release left. UPDATE_STATES=1 deploys the stacks and writes their
 * states instead: run it at the commit of a release, and keep the files for the tests of the next one.
 */
describeUnless(whyNoAwsStack(), 'a stack of the last release', () => {
  describe.each(Object.entries(STATES))('%s', (name, { stack: stackName, config, nodeLabels = {} }) => {
    const scratch = new Scratch();
    afterAll(() => scratch.clean());

    const kubeconfig = (server: string, certificate: string): string =>
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{ name: 'test', cluster: { server, 'certificate-authority-data': certificate } }],
        users: [{ name: 'admin', user: { token: 'admin-token-of-a-test' } }],
        contexts: [{ name: 'admin', context: { cluster: 'test', user: 'admin' } }],
        'current-context': 'admin',
      });

    /** Sets the values of the existing cluster, which the other stacks do not have. */
    const setSecrets = async (stack: TestStack, server: string, certificate: string): Promise<void> => {
      if (stackName !== 'local') return;
      const secrets = { ...LOCAL_KEYS, kubeconfig: kubeconfig(server, certificate) };
      for (const [key, value] of Object.entries(secrets))
        await stack.pulumi('config', 'set', '--stack', stackName, '--secret', key, '--', value);
    };

    /** Deploys the stack, and writes its state without the values of this run. */
    async function make(): Promise<void> {
      const { plane, stack } = await awsStack(scratch, stackName, { config, nodeLabels });
      const certificate = readFileSync(plane.access.certificateFile).toString('base64');
      await setSecrets(stack, plane.access.server, certificate);
      await stack.up();
      const servers = JSON.stringify(await stack.resources()).match(/https:\/\/127\.0\.0\.1:\d+/g) ?? [];
      await saveState(stack, name, [
        ...[...new Set([plane.access.server, ...servers])].map((server) => [server, SERVER] as const),
        [certificate, CERTIFICATE],
      ]);
    }

    if (MAKE) {
      test('is deployed, and its state is written', make, BUILD_MS);
      return;
    }

    test(
      'up deletes and replaces nothing but what the changelog names',
      async () => {
        const { env } = await testMoto(scratch);
        const stack = await TestStack.create(scratch, stackName, { plugins: await awsPlugins(), config, env });
        await setSecrets(stack, SERVER, CERTIFICATE);
        await loadState(stack, name);
        const named = unreleased();
        const steps = (await stack.plan()).filter((step) => /^\S*(delete|replace)/.test(step));
        expect(steps.filter((step) => !named.includes(step.split(' ')[1] ?? step))).toEqual([]);
      },
      BUILD_MS,
    );
  });
});
