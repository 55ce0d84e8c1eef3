import { join } from 'node:path';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/install/python';
import { ensureTriton } from '../../src/install/triton';
import { CONTROL_KEY_VARIABLE, fixedReplicas, replicaClient, type ReplicaSource } from '../../src/cluster/source';
import { generateControlKey } from '../../src/triton/control-key';
import type { TritonHttpClient } from '../../src/triton/http';
import {
  freeTritonPorts,
  startTriton,
  type TritonServer,
  type TritonServerOptions,
} from '../../src/local/triton-server';
import type { Scratch } from './scratch';

/** Of all servers of a test file. */
export const TEST_CONTROL_KEY = generateControlKey();

/** Lets a command at their model control. */
export const CONTROL_ENVIRONMENT = { [CONTROL_KEY_VARIABLE]: TEST_CONTROL_KEY };

/** Test servers, for a publisher. */
export const testReplicas = (urls: readonly string[]): ReplicaSource => fixedReplicas(urls, TEST_CONTROL_KEY);

export interface TestTriton extends TritonServer {
  client: TritonHttpClient;
  /** The end is the test's own doing: it is not told. */
  expectEnd(): void;
  /** Starts it anew where it was, as a kubelet does with one that ended. */
  startAgain(): Promise<TestTriton>;
}

/** A real Triton on `repository` (a folder, or an S3 address as Triton writes it), ended with the scratch folder. */
export async function testTriton(
  scratch: Scratch,
  repository: string,
  options: { load?: string[]; loadThreads?: number; name?: string; ports?: TritonServerOptions['ports'] } = {},
): Promise<TestTriton> {
  const environment = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  const ports = options.ports ?? (await freeTritonPorts());
  const server = await startTriton({
    installation: await ensureTriton(environment),
    environment,
    repository,
    directory: join(scratch.directory, options.name ?? 'triton'),
    ports,
    credentials: { ...LOCAL_CREDENTIALS, region: LOCAL_REGION },
    load: options.load,
    loadThreads: options.loadThreads,
    startTimeoutMs: 300_000,
    modelControlKey: TEST_CONTROL_KEY,
  });
  let isEndExpected = false;
  const expectEnd = (): void => {
    isEndExpected = true;
  };
  const stop = (): Promise<void> => {
    expectEnd();
    return server.stop();
  };
  scratch.defer(stop);
  // Else a test tells only that connections were refused.
  void server.ended.then((how) => {
    if (isEndExpected) return;
    process.stderr.write(`${options.name ?? 'tritonserver'} ended by itself (${how}):\n${server.lastLines(30)}\n`);
  });
  const client = replicaClient({ url: server.httpUrl, modelControlKey: TEST_CONTROL_KEY });
  scratch.defer(() => client.close());
  const startAgain = async (): Promise<TestTriton> => {
    await stop(); // Processes that outlived it.
    return testTriton(scratch, repository, { ...options, ports });
  };
  return { ...server, stop, client, expectEnd, startAgain };
}
