import { join } from 'node:path';
import { AGENT_PORTS } from '../../src/release/agent-api';
import { whyNoGo } from '../../tools/toolchain/go';
import { TestAgent } from '../support/agent';
import { describeUnless } from '../support/describe-unless';
import { testKubernetes, type TestCluster } from '../support/kubernetes';
import { testPulumi, type TestPulumi } from '../support/pulumi';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const BUILD_MS = 30 * 60_000;

const LOCATION = { bucket: 'stack-test', prefix: 'models' };
const PODS = ['triton-0', 'triton-1', 'triton-2'];

/** All steps of a user in the cloud: outputs of a stack, a cluster, and pods with real agents and servers. */
describeUnless(whyNoGo(['pulumi', 'kubernetes']), 'a stack with a cluster', () => {
  const scratch = new Scratch();
  const repository = join(scratch.directory, 'repository');
  let cluster: TestCluster;
  let pulumi: TestPulumi;

  beforeAll(async () => {
    const s3 = await testS3(scratch);
    const store = await openBucket(scratch, s3.endpoint, LOCATION.bucket);
    const targets: Record<string, Record<number, number>> = {};
    for (const name of PODS) {
      const agent = await TestAgent.create(scratch, name);
      await agent.start(store, { location: LOCATION });
      targets[name] = {
        8000: Number(new URL(agent.triton.httpUrl).port),
        [AGENT_PORTS.control]: Number(new URL(agent.url).port),
      };
    }
    cluster = await testKubernetes(scratch, { targets });
    for (const name of PODS.slice(0, 2)) {
      await cluster.createPod({ name, labels: { app: 'triton' }, httpPort: 8000 });
    }
    pulumi = await testPulumi(scratch);
    await pulumi.createStack(
      'dev',
      {
        modelRepository: 's3://stack-test/models',
        region: 'us-east-1',
        endpointUrl: s3.endpoint,
        namespace: cluster.namespace,
        podSelector: 'app=triton',
      },
      { kubeconfig: cluster.kubeconfig() },
    );
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  const run = (command: string, ...args: string[]): Promise<Finished> =>
    runCommandLine(command, [...args, '--stack', 'dev', '--stack-dir', pulumi.directory], {
      ...pulumi.env,
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local-only-no-secret',
    });
  const status = async (): Promise<unknown> => JSON.parse((await run('status', '--json')).stdout);
  const serving = (...names: string[]): object => ({
    asReleased: true,
    replicas: names.map((replica) => ({
      replica,
      agent: { ready: true, models: [{ name: 'adds' }] },
    })),
  });

  test('sync-models publishes through the agents of the pods', async () => {
    writeRepository(repository, addingModel('adds', { 1: 10 }));
    const published = await run('sync-models', '--repo', repository);
    expect(published).toMatchObject({ code: 0, stdout: expect.stringMatching(/Every replica serves it/) as string });
    expect(`${published.stdout}${published.stderr}`).not.toContain('token');
    expect(await status()).toMatchObject(serving('triton-0', 'triton-1'));
  });

  test('status has a later pod, whose agent loads the release by itself, and asks its Triton', async () => {
    await cluster.createPod({ name: 'triton-2', labels: { app: 'triton' }, httpPort: 8000 });
    await until('all serve it', async () => (await run('status')).code === 0);
    expect(await status()).toMatchObject(serving('triton-0', 'triton-1', 'triton-2'));
    expect(await run('status', '--ask')).toMatchObject({ code: 0 });
  });

  test('rollback has all pods serve the former release, and releases lists both', async () => {
    await cluster.deletePod('triton-2');
    writeRepository(repository, addingModel('adds', { 2: 20 }));
    expect(await run('sync-models', '--repo', repository)).toMatchObject({ code: 0 });
    expect(await run('rollback')).toMatchObject({ code: 0 });
    expect(await status()).toMatchObject(serving('triton-0', 'triton-1'));
    const { stdout } = await run('releases');
    expect(stdout).toMatch(/\* .* rollback to \S+ +adds 2 -> 1\n.*sync-models.* adds 1 -> 2\n.*new adds 1/);
  });

  test.each([
    { kind: 'random', warned: ['warning: random weights are published to dev: adds'] },
    { kind: 'pretrained', warned: [] },
  ])('sync-models with $kind weights: warnings $warned', async ({ kind, warned }) => {
    const record = JSON.stringify({ weights: { kind, description: 'of a test' } });
    writeRepository(repository, { ...addingModel('adds', { 3: 30 }), 'adds/3/model.py.trace.json': record });
    const planned = await run('sync-models', '--repo', repository, '--dry-run');
    expect(planned).toMatchObject({ code: 0 });
    expect(planned.stderr.match(/warning: random weights .*/g) ?? []).toEqual(warned);
  });
});
