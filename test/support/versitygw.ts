import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../scripts/lib/local/s3-server';
import { ManagedProcess } from '../../scripts/lib/managed-process';
import { freePorts } from '../../scripts/lib/ports';
import { Progress } from '../../scripts/lib/progress';
import { ensurePython } from '../../scripts/lib/toolchain/python';
import { ensureVersitygw } from '../../scripts/lib/toolchain/versitygw';
import type { Scratch } from './scratch';

export interface VersitygwServer {
  /** http://127.0.0.1:PORT; keys and region: LOCAL_CREDENTIALS, LOCAL_REGION. */
  endpoint: string;
  logFile: string;
  /** Settles when it has ended. */
  ended: Promise<string>;
  stop(): Promise<void>;
}

export interface VersitygwOptions {
  /** Each folder in it is a bucket, each file an object. Made in the scratch folder unless given. */
  directory?: string;
  /** 0, the default, takes a free one. */
  port?: number;
  /** Whether buckets can be versioned; they are once it is switched on for the bucket. */
  versioning?: boolean;
}

const START_TIMEOUT_MS = 30_000;
const STOP_GRACE_MS = 2000;
const HEALTH = '/-/health';

/** A real S3 server of another make than the one of `npm run local`, ended with the scratch folder. */
export async function testVersitygw(scratch: Scratch, options: VersitygwOptions = {}): Promise<VersitygwServer> {
  const program = await ensureVersitygw();
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
  const wanted = options.port ?? 0;
  const port = wanted === 0 ? ((await freePorts(1))[0] as number) : wanted;
  const directory = options.directory ?? join(scratch.directory, `versitygw-${port}`);
  const versions = `${directory}.versions`;
  for (const path of [directory, ...(options.versioning === true ? [versions] : [])])
    mkdirSync(path, { recursive: true });
  const server = new ManagedProcess({
    name: 'versitygw',
    command: program,
    args: [
      `--port=127.0.0.1:${port}`,
      `--access=${LOCAL_CREDENTIALS.accessKeyId}`,
      `--secret=${LOCAL_CREDENTIALS.secretAccessKey}`,
      `--region=${LOCAL_REGION}`,
      `--health=${HEALTH}`,
      // Off by default, which would make every request a connection, unlike S3.
      '--keep-alive',
      '--quiet',
      'posix',
      ...(options.versioning === true ? [`--versioning-dir=${versions}`] : []),
      directory,
    ],
    logFile: join(scratch.directory, `versitygw-${port}.log`),
    python,
  });
  const stop = (): Promise<void> => server.stop(STOP_GRACE_MS);
  scratch.defer(stop);
  const endpoint = `http://127.0.0.1:${port}`;
  await server.untilReady(() => answers(`${endpoint}${HEALTH}`), START_TIMEOUT_MS, stop);
  return { endpoint, logFile: server.logFile, ended: server.ended, stop };
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(1000) })).ok;
  } catch {
    return false;
  }
}
