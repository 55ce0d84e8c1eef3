import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { getEntries } from '../../src/local/process/temp-file-registry';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { ensureTriton } from '../../src/local/install/triton';
import { paths } from '../../src/core/paths';
import { startTriton } from '../../src/local/triton-server';
import { ControlClient } from '../../src/triton/control-client';
import { TritonGrpcClient } from '../../src/triton/grpc';
import { holdUntil } from '../support/ensemble-requests';
import { passOn } from '../support/loopback';
import { addingModel, answeringProgram, askAfterForms, writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { freeTritonPorts, testTriton } from '../support/triton';
import { until } from '../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** What starts a program again each time that it ends. */
const SUPERVISOR = ['sh', join(paths.root, 'infra', 'triton', 'agent', 'supervise.sh')];

test.each([
  ['http', 'alone', undefined],
  ['grpc', 'alone', undefined],
  ['metrics', 'alone', undefined],
  ['grpc', 'with a supervisor', SUPERVISOR],
] as const)(
  'startTriton fails if another program uses the %s port and accepts every request: %s',
  async (taken, title, wrapper) => {
    const other: Server = createServer((_, response) => response.end('ok'));
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    scratch.defer(() => void other.close());
    const environment = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
    const starts = startTriton({
      installation: await ensureTriton(environment),
      environment,
      repository: writeRepository(join(scratch.directory, taken, 'repository'), {}),
      directory: join(scratch.directory, `${taken} ${title}`),
      wrapper,
      variables: { SUPERVISED: 'tritonserver' },
      ports: { ...(await freeTritonPorts()), [taken]: (other.address() as AddressInfo).port },
      startTimeoutMs: 60_000,
    });
    await expect(starts).rejects.toThrow(/^tritonserver ended( \(exit code 1\))?:[^]*already in use/);
  },
);

test('stop deletes the shared memory of a killed server', async () => {
  const server = await testTriton(
    scratch,
    writeRepository(join(scratch.directory, 'killed'), addingModel('adds', { 1: 1 })),
    { name: 'killed' },
  );
  const own = `triton-serving-${process.pid}-${new URL(server.httpUrl).port}-`;
  const shared = (): string[] => getEntries('/dev/shm', own).map(({ name }) => name);
  expect(shared()).not.toEqual([]);
  server.expectEnd();
  // Kill the stubs, too: a stub that outlives the server would remove the shared memory.
  process.kill(-(server.pid as number), 'SIGKILL');
  await server.ended;
  expect(shared()).not.toEqual([]);
  await server.stop();
  expect(shared()).toEqual([]);
});

test('a server answers after large bodies with the Content-Type of curl -d', async () => {
  const repository = writeRepository(join(scratch.directory, 'forms'), addingModel('adds', { 1: 1 }));
  const server = await testTriton(scratch, repository, { name: 'with-forms' });
  expect(await askAfterForms(server.httpUrl, 5)).toBe(2);
  expect(await askAfterForms(server.httpUrl, 100)).toBe(2);
}, 120_000);

test('a load continues when its gRPC connection has reached its age', async () => {
  const repository = join(scratch.directory, 'aged');
  const gate = join(scratch.directory, 'aged may load');
  writeRepository(repository, { ...addingModel('adds', { 1: 10 }), ...addingModel('slow', { 1: 1 }) });
  writeFileSync(join(repository, 'slow/1/model.py'), `${holdUntil(gate)}${answeringProgram('x', 'y', 'x')}`);
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
}, 120_000);
