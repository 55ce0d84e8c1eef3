import { join } from 'node:path';
import { startVersitygw } from './versitygw-server';
import { freePorts } from '../../../src/local/process/ports';
import { ensureVersitygw } from '../../toolchain/versitygw';

/** A versitygw on loopback that stores each object as a file. */
export interface BenchServer {
  endpoint: string;
  /** Folder that contains a folder for each bucket. */
  data: string;
  stop(): Promise<void>;
}

/** @param options.accessLog file to which each request is logged. Default: no log */
export async function startBenchServer(
  directory: string,
  python: string,
  options: { accessLog?: string } = {},
): Promise<BenchServer> {
  const data = join(directory, 'data');
  const [port = 0] = await freePorts(1);
  const server = await startVersitygw({
    versitygw: await ensureVersitygw(),
    python,
    directory: data,
    logFile: join(directory, 'versitygw.log'),
    port,
    ...options,
  });
  return { endpoint: server.endpoint, data, stop: () => server.stop() };
}
