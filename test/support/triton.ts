import { join } from 'node:path';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../scripts/lib/local/s3-server';
import { freePorts } from '../../scripts/lib/ports';
import { Progress } from '../../scripts/lib/progress';
import { ensurePython } from '../../scripts/lib/toolchain/python';
import { ensureTriton } from '../../scripts/lib/toolchain/triton';
import { TritonHttpClient } from '../../scripts/lib/triton/http';
import { startTriton, type TritonServer } from '../../scripts/lib/triton/server';
import type { Scratch } from './scratch';

/** A real Triton on `repository` (a folder, or an S3 address as Triton writes it), ended with the scratch folder. */
export async function testTriton(
  scratch: Scratch,
  repository: string,
  options: { load?: string[]; name?: string } = {},
): Promise<TritonServer & { client: TritonHttpClient }> {
  const environment = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  const [http = 0, grpc = 0, metrics = 0] = await freePorts(3);
  const server = await startTriton({
    installation: await ensureTriton(environment),
    environment,
    repository,
    directory: join(scratch.directory, options.name ?? 'triton'),
    ports: { http, grpc, metrics },
    credentials: { ...LOCAL_CREDENTIALS, region: LOCAL_REGION },
    load: options.load,
    startTimeoutMs: 300_000,
  });
  scratch.defer(() => server.stop());
  const client = new TritonHttpClient(server.httpUrl);
  scratch.defer(() => client.close());
  return { ...server, client };
}
