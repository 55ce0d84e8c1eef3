import { join } from 'node:path';
import type { S3Server } from '../../src/local/s3-server';
import { freePorts } from '../../src/local/process/ports';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/install/python';
import { ensureVersitygw, startVersitygw, type VersitygwOptions } from '../../tools/toolchain/versitygw';
import type { Scratch } from './temp-dir';

/** Starts versitygw, not the S3 server of `npm run local`. Stops when the scratch folder is cleaned. */
export async function testVersitygw(
  scratch: Scratch,
  options: Partial<Pick<VersitygwOptions, 'directory' | 'through'>> = {},
): Promise<S3Server> {
  const versitygw = await ensureVersitygw();
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
  const [port = 0] = await freePorts(1);
  const server = await startVersitygw({
    versitygw,
    python,
    directory: join(scratch.directory, `versitygw-${port}`),
    logFile: join(scratch.directory, `versitygw-${port}.log`),
    port,
    ...options,
  });
  scratch.defer(() => server.stop());
  return server;
}
