import { join } from 'node:path';
import { AGENT_PORTS } from '../../src/release/agent-api';
import { LOCAL_CREDENTIALS } from '../../src/local/s3-server';
import type { S3Store } from '../../src/s3/store';
import { TestAgent } from '../support/agent';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { type TestStack, localStack, NAMESPACE, whyNoEngines } from '../support/stack';
import { until } from '../support/wait-for';

const BUILD_MS = 60 * 60_000;
const LOCATION = { bucket: 'e2e', prefix: 'models' };

describeUnless(whyNoEngines(), 'publishing to the local stack', () => {
  const scratch = new Scratch();
  const repository = join(scratch.directory, 'repository');
  let store: S3Store;
  let plane: ControlPlane;
  let stack: TestStack;

  const podNames = async (): Promise<string[]> =>
    (await plane.readyPods(NAMESPACE)).map(({ metadata }) => metadata?.name ?? '').sort();
  /** Forwards the ports of a simulated pod to a real agent, beside a real server. */
  const giveServer = async (pod: string): Promise<void> => {
    const agent = await TestAgent.create(scratch, pod);
    await agent.start(store, { location: LOCATION });
    await plane.forwardPod(NAMESPACE, pod, {
      8000: Number(new URL(agent.triton.httpUrl).port),
      [AGENT_PORTS.control]: Number(new URL(agent.url).port),
    });
  };

  beforeAll(async () => {
    const { endpoint } = await testS3(scratch);
    store = await openBucket(scratch, endpoint, LOCATION.bucket);
    plane = await ControlPlane.start(scratch);
    for (const name of ['gpu-0', 'gpu-1']) await plane.addNode({ name, gpus: 1 });
    stack = await localStack(scratch, plane, { endpoint, bucket: LOCATION.bucket });
    await stack.up();
    for (const pod of await podNames()) await giveServer(pod);
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  const run = (command: string, ...args: string[]): Promise<Finished> =>
    runCommandLine(command, [...args, '--stack', 'local', '--stack-dir', stack.directory], {
      ...stack.env,
      AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
    });
  const succeed = async (command: string, ...args: string[]): Promise<Finished> => {
    const finished = await run(command, ...args);
    if (finished.code !== 0) throw new Error(`${command}: exit code ${finished.code}\n${finished.stderr}`);
    return finished;
  };
  const expectServed = async (): Promise<void> => {
    const status = JSON.parse((await run('status', '--json')).stdout) as { replicas: { replica: string }[] };
    expect(status).toMatchObject({ asReleased: true });
    expect(status.replicas.map(({ replica }) => replica).sort()).toEqual(await podNames());
  };

  test('sync-models finds the replicas through the Kubernetes API, and their agents load the models', async () => {
    writeRepository(repository, addingModel('adds', { 1: 10 }));
    const published = await succeed('sync-models', '--repo', repository);
    expect(published.stdout).toMatch(/Every replica serves it/);
    expect(`${published.stdout}${published.stderr}`).not.toContain(plane.access.token());
    const pods = await podNames();
    expect(pods).toHaveLength(2);
    await expectServed();
  });

  test('the agent of a replacement pod loads the published models at its start, and status asks its Triton', async () => {
    const [old] = await podNames();
    await plane.client.core.deleteNamespacedPod({ namespace: NAMESPACE, name: old as string });
    await until('another one is ready', async () => {
      const names = await podNames();
      return names.length === 2 && !names.includes(old as string);
    });
    const before = await plane.client.objects.list('kwok.x-k8s.io/v1alpha1', 'PortForward', NAMESPACE);
    const known = before.items.map(({ metadata }) => metadata?.name);
    for (const pod of (await podNames()).filter((name) => !known.includes(name))) await giveServer(pod);
    await until('it serves', async () => (await run('status')).code === 0);
    await succeed('status', '--ask');
    await expectServed();
  });

  test('rollback has each replica serve the former release, and releases lists both', async () => {
    writeRepository(repository, addingModel('adds', { 2: 20 }));
    await succeed('sync-models', '--repo', repository);
    await succeed('rollback');
    await expectServed();
    const { stdout } = await succeed('releases');
    expect(stdout).toMatch(/\* .* rollback to \S+ +adds 2 -> 1\n.*sync-models.* adds 1 -> 2\n.*new adds 1/);
  });

  test.each([
    { kind: 'random', warned: ['warning: random weights are published to local: adds'] },
    { kind: 'pretrained', warned: [] },
  ])('sync-models with $kind weights: warnings $warned', async ({ kind, warned }) => {
    const record = JSON.stringify({ weights: { kind, description: 'of a test' } });
    writeRepository(repository, { ...addingModel('adds', { 3: 30 }), 'adds/3/model.py.trace.json': record });
    const planned = await succeed('sync-models', '--repo', repository, '--dry-run');
    expect(planned.stderr.match(/warning: random weights .*/g) ?? []).toEqual(warned);
  });
});
