import { join } from 'node:path';
import { ManagedProcess } from '../../scripts/lib/managed-process';
import { freePorts } from '../../scripts/lib/ports';
import { Progress } from '../../scripts/lib/progress';
import { ensureLockedPackages, ensurePython } from '../../scripts/lib/toolchain/python';
import { answers } from './api-server';
import type { Scratch } from './scratch';

const START_TIMEOUT_MS = 60_000;
const STOP_GRACE_MS = 2000;

/** A mock of AWS that keeps everything in memory: moto with the parts that an EKS stack needs and moto lacks. */
export interface Moto {
  endpoint: string;
  /** What makes an AWS SDK, and Pulumi's provider, talk to it and to nothing else. */
  env: NodeJS.ProcessEnv;
}

/** Starts it on loopback; ended with the scratch folder. */
export async function testMoto(scratch: Scratch): Promise<Moto> {
  const python = await ensurePython(new Progress(process.stderr, true).step(''));
  const packages = await ensureLockedPackages('moto', python);
  const [port] = (await freePorts(1)) as [number];
  const server = new ManagedProcess({
    name: 'moto',
    command: python.python,
    args: ['-m', 'moto_server', '-H', '127.0.0.1', '-p', String(port)],
    env: { ...process.env, PYTHONPATH: `${packages}:${__dirname}` },
    logFile: join(scratch.directory, 'moto.log'),
    python: python.python,
  });
  const stop = (): Promise<void> => server.stop(STOP_GRACE_MS);
  scratch.defer(stop);
  const endpoint = `http://127.0.0.1:${port}`;
  await server.untilReady(() => answers(`${endpoint}/moto-api/`), START_TIMEOUT_MS, stop);
  const env = {
    AWS_ENDPOINT_URL: endpoint,
    AWS_ACCESS_KEY_ID: 'mock',
    AWS_SECRET_ACCESS_KEY: 'mock',
    // Nothing of whoever runs the tests is used.
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_EC2_METADATA_DISABLED: 'true',
  };
  return { endpoint, env };
}
