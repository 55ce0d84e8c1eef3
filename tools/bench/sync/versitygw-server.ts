import { mkdirSync } from 'node:fs';
import { answers } from '../../../src/local/process/answers';
import { ManagedProcess } from '../../../src/local/process/managed-process';
import { LOCAL_CREDENTIALS, LOCAL_REGION, type S3Server } from '../../../src/local/s3-server';

const START_TIMEOUT_MS = 30_000;
const STOP_GRACE_MS = 2000;
const HEALTH = '/-/health';

export interface VersitygwOptions {
  versitygw: string;
  python: string;
  /** Each folder in it is a bucket, each file an object. */
  directory: string;
  logFile: string;
  port: number;
  /** File that gets a line for each request; without it nothing is logged. */
  accessLog?: string;
  /** Absolute path and arguments of a program that starts it: what follows them is its own command line. */
  through?: readonly string[];
}

/**
 * Starts versitygw, an S3 API on a folder, on 127.0.0.1 and returns when it answers. Keys and region: LOCAL_CREDENTIALS,
 * LOCAL_REGION. For tests and measurements; `npm run local` has the server of s3-server.ts.
 */
export async function startVersitygw(options: VersitygwOptions): Promise<S3Server> {
  mkdirSync(options.directory, { recursive: true });
  const [command, ...args] = [...(options.through ?? []), options.versitygw, ...serverArguments(options)] as [string];
  const server = new ManagedProcess({
    name: 'versitygw',
    command,
    args,
    logFile: options.logFile,
    python: options.python,
  });
  const stop = (): Promise<void> => server.stop(STOP_GRACE_MS);
  const endpoint = `http://127.0.0.1:${options.port}`;
  await server.untilReady(() => answers(`${endpoint}${HEALTH}`), START_TIMEOUT_MS, stop);
  return { endpoint, ended: server.ended, pid: server.pid, logFile: server.logFile, stop };
}

function serverArguments({ port, accessLog, directory }: VersitygwOptions): string[] {
  return [
    `--port=127.0.0.1:${port}`,
    `--access=${LOCAL_CREDENTIALS.accessKeyId}`,
    `--secret=${LOCAL_CREDENTIALS.secretAccessKey}`,
    `--region=${LOCAL_REGION}`,
    `--health=${HEALTH}`,
    // Off by default, which would make every request a connection, unlike S3.
    '--keep-alive',
    '--quiet',
    ...(accessLog === undefined ? [] : [`--access-log=${accessLog}`]),
    'posix',
    directory,
  ];
}
