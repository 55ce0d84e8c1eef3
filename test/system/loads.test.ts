import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { S3Store } from '../../src/s3/store';
import { ControlClient } from '../../src/triton/control-client';
import { TritonGrpcClient } from '../../src/triton/grpc';
import { TritonHttpClient } from '../../src/triton/http';
import { ReleaseWriter, TestAgent, type TestModel } from '../support/agent';
import { holdUntil } from '../support/ensemble-requests';
import { passOn } from '../support/loopback';
import { addingModel, answeringProgram, writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { testTriton, type TestTriton } from '../support/triton';
import { until } from '../support/wait-for';

/**
 * Requests while a model loads. The load waits for a file, which the test writes after the answers, so a request that
 * waits for the load fails.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** Triton's HTTP server has eight threads, and each connection stays with one of them. */
const CONNECTIONS = 24;
const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(1) } as const;

const slowProgram = (gate: string): string => `${holdUntil(gate)}${answeringProgram('x', 'y', 'x')}`;

let store: S3Store;
beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, 'loads');
}, 300_000);

/** An agent whose Triton serves `adds`, and has it load `slow`. */
async function withAgent(): Promise<{ triton: TestTriton; load: (gate: string) => Promise<unknown> }> {
  const agent = await TestAgent.create(scratch, 'pod');
  const releases = new ReleaseWriter(store);
  const model = (program: string): TestModel => ({
    served: [1],
    // A file in its place, so that Python changes no time of the folder: a pod mounts it read-only.
    files: { '1/model.py': program, '1/__pycache__': '' },
    config:
      'backend: "python" max_batch_size: 0 instance_group { kind: KIND_CPU count: 1 }\n' +
      'input { name: "x" data_type: TYPE_FP32 dims: -1 } output { name: "y" data_type: TYPE_FP32 dims: -1 }\n',
  });
  const adds = model(answeringProgram('x', 'y', 'x + np.float32(10)'));
  const serve = async (models: Record<string, TestModel>): Promise<void> => {
    const release = await releases.write(models);
    await releases.commit(release);
    await until('the release', () => agent.state.release === release.id);
  };
  await agent.start(store);
  await serve({ adds });
  return { triton: agent.triton, load: (gate) => serve({ adds, slow: model(slowProgram(gate)) }) };
}

const isLoading = (control: TritonHttpClient, model: string) => async (): Promise<boolean> =>
  (await control.repositoryIndex()).some(({ name, state }) => name === model && state === 'LOADING');

test('no HTTP request waits while an agent loads another model', async () => {
  const { triton, load } = await withAgent();
  const clients = Array.from({ length: CONNECTIONS }, () => new TritonHttpClient(triton.httpUrl));
  scratch.defer(() => clients.forEach((client) => client.close()));
  const ask = async (): Promise<unknown[]> => {
    const answers = clients.map((client) => client.infer('adds', [x], { timeoutMs: 20_000 }));
    return (await Promise.all(answers)).map(({ outputs }) => outputs[0]?.data[0]);
  };
  const right = clients.map(() => 11);
  expect(await ask()).toEqual(right);

  const gate = join(scratch.directory, 'slow may load');
  const loading = load(gate);
  await until('slow is LOADING', isLoading(triton.client, 'slow'));
  expect(await ask()).toEqual(right);
  expect(await triton.client.modelReady('slow')).toBe(false);
  writeFileSync(gate, '');
  await loading;
  expect(await triton.client.modelReady('slow')).toBe(true);
});

test('a load continues when its gRPC connection has reached its age', async () => {
  const repository = join(scratch.directory, 'aged');
  const gate = join(scratch.directory, 'aged may load');
  writeRepository(repository, { ...addingModel('adds', { 1: 10 }), ...addingModel('slow', { 1: 1 }) });
  writeFileSync(join(repository, 'slow/1/model.py'), slowProgram(gate));
  // Pods have the same argument, with a longer time.
  const extraArguments = ['--grpc-max-connection-age=300'];
  const triton = await testTriton(scratch, repository, { load: ['adds'], name: 'aged', extraArguments });
  let connections = 0;
  const { port, stop } = await passOn(Number(triton.grpcAddress.split(':')[1]), () => (connections += 1) > 0);
  scratch.defer(stop);
  const control = new ControlClient({ ...triton.control, grpcAddress: `127.0.0.1:${port}` });
  const client = new TritonGrpcClient(`127.0.0.1:${port}`);
  scratch.defer(() => [control, client].forEach((one) => one.close()));

  let isLoading = true;
  const loading = control.loadModel('slow').finally(() => (isLoading = false));
  await until('calls have needed several connections', async () => (await client.live()) && connections > 4);
  expect(isLoading).toBe(true);
  writeFileSync(gate, '');
  await loading;
});
