import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../local/s3-server';
import { ManagedProcess } from '../../managed-process';
import { freePorts } from '../../ports';
import { ensureVersitygw } from '../../toolchain/versitygw';

const START_TIMEOUT_MS = 30_000;
const STOP_GRACE_MS = 2000;
const HEALTH = '/-/health';

/** A versitygw on loopback, which keeps each object as a file. */
export interface BenchServer {
  endpoint: string;
  /** Folder with a folder for each bucket. */
  data: string;
  stop(): Promise<void>;
}

/** @param options.accessLog file with a line for each request; without it nothing is logged */
export async function startBenchServer(
  directory: string,
  python: string,
  options: { accessLog?: string } = {},
): Promise<BenchServer> {
  const data = join(directory, 'data');
  mkdirSync(data, { recursive: true });
  const [port = 0] = await freePorts(1);
  const server = new ManagedProcess({
    name: 'versitygw',
    command: await ensureVersitygw(),
    args: [
      `--port=127.0.0.1:${port}`,
      `--access=${LOCAL_CREDENTIALS.accessKeyId}`,
      `--secret=${LOCAL_CREDENTIALS.secretAccessKey}`,
      `--region=${LOCAL_REGION}`,
      `--health=${HEALTH}`,
      // Off by default, which would make every request a connection, unlike S3.
      '--keep-alive',
      '--quiet',
      ...(options.accessLog === undefined ? [] : [`--access-log=${options.accessLog}`]),
      'posix',
      data,
    ],
    logFile: join(directory, 'versitygw.log'),
    python,
  });
  const stop = (): Promise<void> => server.stop(STOP_GRACE_MS);
  const endpoint = `http://127.0.0.1:${port}`;
  await server.untilReady(() => answers(`${endpoint}${HEALTH}`), START_TIMEOUT_MS, stop);
  return { endpoint, data, stop };
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(1000) })).ok;
  } catch {
    return false;
  }
}
