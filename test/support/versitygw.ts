import { join } from 'node:path';
import type { S3Server } from '../../src/local/s3-server';
import { freePorts } from '../../src/local/process/ports';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { ensureVersitygw, startVersitygw } from '../../tools/toolchain/versitygw';
import type { Scratch } from './temp-dir';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from './describe-unless';
import { testS3 } from './s3';

export type StartS3 = (scratch: Scratch) => Promise<S3Server>;

/** Runs the same tests on each S3 server. versitygw is skipped if there is no Go to build it. */
export function describeOnEachS3(title: string, body: (start: StartS3, server: string) => void): void {
  describeUnless(whyNoGo(['versitygw']), `${title} versitygw`, () => body(testVersitygw, 'versitygw'));
  describe(`${title} SeaweedFS`, () => body(testS3, 'SeaweedFS'));
}

/** Starts versitygw, not the S3 server of `npm run local`. Stops when the scratch folder is cleaned. */
async function testVersitygw(scratch: Scratch): Promise<S3Server> {
  const versitygw = await ensureVersitygw();
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
  const [port = 0] = await freePorts(1);
  const server = await startVersitygw({
    versitygw,
    python,
    directory: join(scratch.directory, `versitygw-${port}`),
    logFile: join(scratch.directory, `versitygw-${port}.log`),
    port,
  });
  scratch.defer(() => server.stop());
  return server;
}
