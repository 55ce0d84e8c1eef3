import { mkdirSync } from 'node:fs';
import type { Step } from '../../src/cli/progress';
import { isHealthy } from '../../src/local/process/health-check';
import { ManagedProcess } from '../../src/local/process/managed-process';
import { LOCAL_CREDENTIALS, LOCAL_REGION, type S3Server } from '../../src/local/s3-server';
import { ensureGoProgram } from './go';

/** The `versitygw` program, an S3 API for a folder. Only for tests and benchmarks. */
export function ensureVersitygw(step?: Step): Promise<string> {
  return ensureGoProgram(
    {
      name: 'versitygw',
      pins: 'versitygw',
      module: 'github.com/versity/versitygw',
      package: 'github.com/versity/versitygw/cmd/versitygw',
      ldflags: (version) => `-X main.Version=${version}`,
      versionArguments: ['--version'],
    },
    step,
  );
}

const START_TIMEOUT_MS = 30_000;
const STOP_GRACE_MS = 2000;
const HEALTH = '/-/health';

interface VersitygwOptions {
  versitygw: string;
  python: string;
  /** Each folder in this folder is a bucket, each file an object. */
  directory: string;
  logFile: string;
  port: number;
}

/**
 * Starts versitygw, an S3 API for a folder, on 127.0.0.1, and returns when it answers. Its keys and region are
 * LOCAL_CREDENTIALS and LOCAL_REGION. For tests and benchmarks only; `npm run local` uses the server of s3-server.ts.
 */
export async function startVersitygw(options: VersitygwOptions): Promise<S3Server> {
  for (const directory of [options.directory, versions(options)]) mkdirSync(directory, { recursive: true });
  const server = new ManagedProcess({
    name: 'versitygw',
    command: options.versitygw,
    args: serverArguments(options),
    logFile: options.logFile,
    python: options.python,
  });
  const stop = (): Promise<void> => server.stop(STOP_GRACE_MS);
  const endpoint = `http://127.0.0.1:${options.port}`;
  await server.untilReady(() => isHealthy(`${endpoint}${HEALTH}`), START_TIMEOUT_MS, stop);
  return { endpoint, ended: server.ended, pid: server.pid, logFile: server.logFile, stop };
}

/** Folder for the former versions of objects, of buckets whose versioning is on. */
const versions = ({ directory }: VersitygwOptions): string => `${directory}.versions`;

function serverArguments(options: VersitygwOptions): string[] {
  const { port, directory } = options;
  return [
    `--port=127.0.0.1:${port}`,
    `--access=${LOCAL_CREDENTIALS.accessKeyId}`,
    `--secret=${LOCAL_CREDENTIALS.secretAccessKey}`,
    `--region=${LOCAL_REGION}`,
    `--health=${HEALTH}`,
    // Without this flag every request would need a new connection, unlike S3.
    '--keep-alive',
    '--quiet',
    'posix',
    `--versioning-dir=${versions(options)}`,
    directory,
  ];
}
