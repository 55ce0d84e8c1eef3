import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { ensureTriton } from '../../src/local/install/triton';
import { ControlClient } from '../../src/triton/control-client';
import { generateControlKey } from '../../src/triton/control-key';
import type { TritonHttpClient } from '../../src/triton/http';
import { startTriton, type TritonProcess, type TritonProcessOptions } from '../../src/local/triton-server';
import { freePorts } from '../../src/local/process/ports';
import { emptyBackend } from './empty-backend';
import type { Scratch } from './temp-dir';

/** Model-control key of all servers of a test file. */
export const TEST_CONTROL_KEY = generateControlKey();

/** Argument with which Triton loads one model after the other, in the order of the requests. */
export const ONE_BY_ONE = '--model-load-thread-count=1';

export interface TestTriton extends TritonProcess {
  client: TritonHttpClient;
  /** Call before the test ends the server, so that the end is not reported. */
  expectEnd(): void;
  /** Restarts the server on the same ports, as a kubelet does after a server ended. */
  startAgain(): Promise<TestTriton>;
}

function addEmptyBackend(backends: string): void {
  const directory = join(backends, 'empty');
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'libtriton_empty.so'), emptyBackend());
}

/** Free ports on loopback. */
export async function freeTritonPorts(): Promise<TritonProcessOptions['ports']> {
  const [http = 0, grpc = 0, metrics = 0] = await freePorts(3);
  return { http, grpc, metrics };
}

/**
 * Starts a real Triton, which stops when the scratch folder is cleaned.
 * @param repository a folder, or an S3 address in Triton's form
 */
export async function testTriton(
  scratch: Scratch,
  repository: string,
  options: {
    load?: string[];
    extraArguments?: readonly string[];
    name?: string;
    ports?: TritonProcessOptions['ports'];
    /** Whether models can name the backend `empty`. */
    hasEmptyBackend?: boolean;
  } = {},
): Promise<TestTriton> {
  const environment = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  const ports = options.ports ?? (await freeTritonPorts());
  const installation = await ensureTriton(environment);
  const directory = join(scratch.directory, options.name ?? 'triton');
  const mount = join(directory, 'mount');
  mkdirSync(mount, { recursive: true });
  const start = (): Promise<TritonProcess> => {
    const starting = startTriton({
      installation,
      environment,
      repository,
      directory,
      ports,
      variables: {
        AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
        AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
        AWS_DEFAULT_REGION: LOCAL_REGION,
        TRITON_AWS_MOUNT_DIRECTORY: mount,
      },
      load: options.load,
      extraArguments: options.extraArguments,
      startTimeoutMs: 300_000,
      modelControlKey: TEST_CONTROL_KEY,
    });
    // The folder of the backends is complete by now, and the server does not answer yet.
    if (options.hasEmptyBackend === true) addEmptyBackend(join(directory, 'backends'));
    return starting;
  };
  // On a busy machine Triton's Python backend sometimes aborts the server while models load (triton-inference-server/server#8882).
  const server = await start().catch((error: unknown) => {
    if (!String(error).includes('signal SIGABRT')) throw error;
    return start();
  });
  let isEndExpected = false;
  const expectEnd = (): void => {
    isEndExpected = true;
  };
  const stop = (graceMs?: number): Promise<void> => {
    expectEnd();
    return server.stop(graceMs);
  };
  scratch.defer(() => stop(0)); // An orderly end takes seconds.
  // Otherwise a failed test would report only refused connections.
  void server.ended.then((how) => {
    if (isEndExpected) return;
    process.stderr.write(`${options.name ?? 'tritonserver'} ended by itself (${how}):\n${server.lastLines(30)}\n`);
  });
  const client = new ControlClient(server.control);
  scratch.defer(() => client.close());
  const startAgain = async (): Promise<TestTriton> => {
    await stop(); // Ends processes that outlived the server.
    return testTriton(scratch, repository, { ...options, ports });
  };
  return { ...server, stop, client, expectEnd, startAgain };
}
