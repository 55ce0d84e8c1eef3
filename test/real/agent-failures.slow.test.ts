import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RESTART_FILE } from '../../src/agent/pod-files';
import { TritonHttpClient } from '../../src/triton/http';
import type { GoldenRequest } from '../../src/model/golden';
import type { S3Store } from '../../src/s3/store';
import { ReleaseWriter, TestAgent, type TestModel, type WrittenRelease } from '../support/agent';
import { getTarget } from '../../src/publish/builds';
import { findProcesses } from '../support/processes';
import { answeringProgram } from '../support/repository';
import { EnsembleRequests, holdUntil } from '../support/ensemble-requests';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

/** An agent and a real Triton with models in Python: wrong answers, processes that end, memory that is missing. */

const scratch = new Scratch();
afterAll(() => scratch.clean());

let store: S3Store;
let agent: TestAgent;
let releases: ReleaseWriter;
let first: WrittenRelease;

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, 'failures');
  agent = await TestAgent.create(scratch, 'pod');
  releases = new ReleaseWriter(store);
  await agent.start(store);
  first = await releases.write({ a: model(1, { golden: [golden(1)] }) });
  await releases.commit(first);
  await until('the first release', serves(first));
}, 300_000);

const CONFIG =
  'backend: "python" max_batch_size: 0\n' +
  'input { name: "x" data_type: TYPE_FP32 dims: -1 }\noutput { name: "y" data_type: TYPE_FP32 dims: -1 }\n';
/** The program of a model's process. */
const STUB = /triton_python_backend_stub$/;
const ON_CPU = 'instance_group { kind: KIND_CPU count: 1 }\n';

/** Answers x + version. */
const model = (version: number, more: Partial<TestModel> = {}, prelude = ''): TestModel => ({
  served: [version],
  files: {
    [`${version}/model.py`]: `${prelude}${answeringProgram('x', 'y', `x + np.float32(${version})`)}`,
    // A file in its place, so that Python changes no time of the folder: a pod mounts it read-only.
    [`${version}/__pycache__`]: '',
  },
  config: CONFIG + ON_CPU,
  ...more,
});

const tensor = (name: string, value: number) =>
  ({ name, datatype: 'FP32', shape: [1], data: Float32Array.of(value) }) as const;
const golden = (answer: number): GoldenRequest => ({
  name: 'zero',
  inputs: [tensor('x', 0)],
  outputs: [{ name: 'y', tensor: tensor('y', answer), tolerance: { absolute: 0, relative: 0 } }],
  parameters: {},
});

const serves = (release: WrittenRelease) => (): boolean => agent.state.release === release.id;
const isTried = (): boolean => agent.state.trial?.phase === 'served';

/** Has the agent try a release that is refused. */
async function refusal(
  release: WrittenRelease,
  change: object = { ask: true },
): Promise<{ reason?: string; hint?: string }> {
  await agent.try(release, change);
  await until('refused', () => agent.state.lastTrial?.release === release.id);
  expect(agent.state.lastTrial?.outcome).toBe('refused');
  await until('home', serves(first));
  return agent.state.lastTrial ?? {};
}

async function endTrial({ id }: { id: string }, { secret }: WrittenRelease): Promise<void> {
  await agent.send('DELETE', `/v1/trials/${id}`, { secret });
  await until('home', serves(first));
}

test.each([
  [
    'other bytes',
    { checksum: `${'A'.repeat(43)}=` },
    /golden requests of b: .* has other bytes than the release names$/,
  ],
  ['no object', { key: 'models.releases/files/gone' }, /gone is missing$/],
])('golden requests with %s end the trial before a model is loaded', async (_, wrong, reason) => {
  const b = model(2, { golden: [golden(2)] });
  const release = await releases.write({ a: model(1), b }, (file) =>
    file.path === 'golden.json' ? { ...file, ...wrong } : file,
  );
  agent.events = [];
  expect((await refusal(release)).reason).toMatch(reason);
  expect(agent.loads()).toEqual([]);
});

test('a model on the CPU that should be on a GPU is refused', async () => {
  await agent.stop();
  await agent.start(store, { gpus: 1 });
  await until('ready', serves(first));
  const open = model(2, { config: CONFIG });
  const { reason, hint } = await refusal(await releases.write({ b: open, c: model(3) }), {});
  expect(reason).toBe('Triton serves b on the CPU, although this pod should have 1 GPU: Triton sees no GPU');
  expect(hint).toContain('KIND_CPU');
  await agent.stop();
  await agent.start(store);
  await until('ready', serves(first));
});

test('a model that is compiled for other pods is refused before a load', async () => {
  await agent.stop();
  await agent.start(store, { target: '26.12 8.9' });
  await until('ready', serves(first));
  expect(
    await getTarget({ describe: () => '', list: () => Promise.resolve([{ name: 'pod', uid: '', url: agent.url }]) }),
  ).toBe('26.12 8.9');
  const compiled = (target: string) => ({ compiled: { 2: { program: 'p', target } } });
  agent.events = [];
  const { reason, hint } = await refusal(await releases.write({ b: model(2, compiled('26.11 8.9')), c: model(3) }), {});
  expect(reason).toBe('compiled for other pods than this one (26.12 8.9): b 2 (26.11 8.9)');
  expect(hint).toContain('npm run build -- --stack');
  expect(agent.loads()).toEqual([]);
  await agent.stop();
  await agent.start(store);
  await until('ready', serves(first));
});

test('a model whose process was killed is loaded again', async () => {
  const processesOf = (name: string): number[] => findProcesses(STUB, `${agent.directory}/models/${name}/`);
  const { client } = agent.triton;
  // Triton asks its backend whether a model is ready from 25.12 on, which production has. The Triton of the tests does not.
  const triton = Object.assign(Object.create(client) as typeof client, {
    modelReady: async (...[name, ...more]: Parameters<typeof client.modelReady>) =>
      processesOf(name).length > 0 && (await client.modelReady(name, ...more)),
  });
  await agent.stop();
  await agent.start(store, { triton });
  await until('ready', () => serves(first)() && agent.state.ready);
  agent.events = [];

  const [killed, ...others] = processesOf('a');
  expect(others).toEqual([]);
  process.kill(killed as number, 'SIGKILL');
  await until('the agent noticed', () => agent.events.some(({ event }) => event === 'lost'));
  await until('home', () => serves(first)() && agent.state.ready);
  expect(agent.loads()).toEqual(['a']);
  const { outputs } = await client.infer('a', [tensor('x', 0)]);
  expect(outputs).toMatchObject([{ name: 'y', data: Float32Array.of(1) }]);

  await agent.stop();
  await agent.start(store);
  await until('ready', serves(first));
});

test('no HTTP request waits while the agent loads another model', async () => {
  // Triton's HTTP server has eight threads, and each connection stays with one of them.
  const clients = Array.from({ length: 24 }, () => new TritonHttpClient(agent.triton.httpUrl));
  scratch.defer(() => clients.forEach((client) => client.close()));
  const ask = async (): Promise<unknown[]> => {
    const answers = clients.map((client) => client.infer('a', [tensor('x', 0)], { timeoutMs: 20_000 }));
    return (await Promise.all(answers)).map(({ outputs }) => outputs[0]?.data[0]);
  };
  const right = clients.map(() => 1);
  expect(await ask()).toEqual(right);

  // The load waits for a file, which is written after the answers.
  const gate = join(scratch.directory, 'slow may load');
  const release = await releases.write({ a: model(1), slow: model(1, {}, holdUntil(gate)) });
  const trial = await agent.try(release);
  const isLoading = async (): Promise<boolean> =>
    (await agent.triton.client.repositoryIndex()).some(({ name, state }) => name === 'slow' && state === 'LOADING');
  await until('slow is LOADING', isLoading);
  expect(await ask()).toEqual(right);
  expect(await agent.triton.client.modelReady('slow')).toBe(false);
  writeFileSync(gate, '');
  await until('the trial', isTried);
  expect(await agent.triton.client.modelReady('slow')).toBe(true);
  await endTrial(trial, release);
});

describe('a model that does not fit into memory twice', () => {
  let lock: string;
  /** Its process holds a lock on a file: the memory that exists once. */
  const large = (version: number, before = ''): TestModel =>
    model(
      version,
      {},
      `import fcntl\nheld = open("${lock}")\n${before}try:\n    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)\nexcept OSError:\n    raise RuntimeError("CUDA out of memory. Tried to allocate 9.00 GiB")\n`,
    );

  beforeAll(async () => {
    lock = join(scratch.directory, 'memory');
    writeFileSync(lock, '');
    const release = await releases.write({ a: model(1), large: large(1) });
    await releases.commit(release);
    await until('the large model', serves(release));
    first = release;
  });

  test('is refused, with the memory that is missing and what to do', async () => {
    const { reason, hint } = await refusal(await releases.write({ a: model(1), large: large(2) }), {});
    expect(reason).toMatch(/^Triton cannot load large: .*CUDA out of memory\. Tried to allocate 9\.00 GiB/);
    expect(hint).toContain('--unload-first');
  });

  test.each<[text: string, ttlSeconds: number, isServed: boolean]>([
    ['is replaced outside of the Service', 60, true],
    ['is served as before if the publisher dies while the pod leaves the Service', 1, false],
  ])('%s, and no request fails that goes to Ready pods only', async (_, ttlSeconds, isServed) => {
    const release = await releases.write({ a: model(1), large: large(2) }, undefined, { unloadFirst: true });
    const requests = new EnsembleRequests(agent.triton.client, 'large', () => agent.state.ready);
    const { id } = await agent.try(release, { ttlSeconds });
    await until('the pod is not Ready', () => !agent.state.ready);
    if (isServed) {
      await until('the trial', () => isTried() && agent.state.ready);
      await endTrial({ id }, release); // Back to home, for which the pod leaves too.
    }
    await until('home', () => serves(first)() && agent.state.ready);
    expect((await requests.end(1)).filter((answer) => typeof answer === 'string')).toEqual([]);
    expect(agent.state.trial).toBeNull();
    expect(await agent.triton.client.modelReady('large', 1)).toBe(true);
  });

  test('Triton is restarted if home cannot be loaded any more', async () => {
    // Version 3 leaves a process behind that holds the lock, and fails: memory that is lost. The process opens the file
    // itself, because the processes that share an open file share its lock.
    const leak = `import os, time\nif os.fork() == 0:\n    own = open("${lock}")\n    fcntl.flock(own, fcntl.LOCK_EX)\n    time.sleep(600)\n    os._exit(0)\ntime.sleep(1)\n`;
    const release = await releases.write({ a: model(1), large: large(3, leak) }, undefined, { unloadFirst: true });
    const request = join(agent.directory, RESTART_FILE);
    await agent.try(release);
    await until('the agent asks for a restart', () => existsSync(request));
    expect(agent.state.lastTrial?.reason).toContain('CUDA out of memory');
    expect(agent.state.ready).toBe(false);
    // What the end of the container does.
    const left = findProcesses(STUB, `${agent.directory}/models/large/3`);
    expect(left).not.toEqual([]);
    for (const pid of left) process.kill(pid, 'SIGKILL');
    await agent.restartTriton();
    await until('home', () => serves(first)() && agent.state.ready);
  });
});
