import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatBytes } from '../core/format';
import { diskUsage } from './install/disk-usage';
import { isHealthy } from './process/health-check';
import { TempFileRegistry } from './process/temp-file-registry';
import { ManagedProcess } from './process/managed-process';
import { freePorts } from './process/ports';
import { selfSignedCertificate } from './certificate';

const START_TIMEOUT_MS = 120_000;

/** Keys of the S3 servers in tests and benchmarks. `npm run local` generates random keys. */
export const LOCAL_CREDENTIALS = { accessKeyId: 'local', secretAccessKey: 'local-only-no-secret' } as const;
export const LOCAL_REGION = 'us-east-1';

/** An S3 server on loopback that stores its objects in a folder. */
export interface S3Server {
  endpoint: string;
  /** Settles when the server has ended. */
  ended: Promise<string>;
  pid: number | undefined;
  logFile: string;
  stop(): Promise<void>;
}

export interface S3ServerOptions {
  weed: string;
  python: string;
  /** Folder of the objects, which the next run reuses. */
  directory: string;
  logFile: string;
  port: number;
  /** Required because writers to the bucket decide which code models execute, and web pages can reach loopback. */
  credentials: { accessKeyId: string; secretAccessKey: string };
}

/** A bucket of this size is emptied if it also takes more than four times the disk of its repository. */
const LARGE_BYTES = 5e9;

/** Deletes the objects of earlier runs if they take too much disk, because a bucket stores the former files of each edit. */
export function emptyLargeBucket(
  directory: string,
  repository: string,
  report: (text: string) => void,
  large = LARGE_BYTES,
): void {
  const bytes = diskUsage(directory);
  if (bytes < large || bytes < 4 * diskUsage(repository)) return;
  rmSync(directory, { recursive: true });
  report(
    `     the local bucket took ${formatBytes(bytes)} and was emptied; earlier local releases cannot be rolled back`,
  );
}

/** Random keys for one run of a server. */
export const generateCredentials = (): S3ServerOptions['credentials'] => ({
  accessKeyId: 'local',
  secretAccessKey: randomBytes(24).toString('hex'),
});

/** Starts SeaweedFS with an S3 API on 127.0.0.1 and returns when it answers. */
export async function startS3Server(options: S3ServerOptions): Promise<S3Server> {
  mkdirSync(options.directory, { recursive: true });
  // State of earlier masters, one folder per port. A new master rebuilds its state from the volumes.
  for (const name of readdirSync(options.directory)) {
    if (/^m\d+$/.test(name)) rmSync(join(options.directory, name), { recursive: true, force: true });
  }
  const config = join(options.directory, 's3.json');
  const credentials = { accessKey: options.credentials.accessKeyId, secretKey: options.credentials.secretAccessKey };
  writeFileSync(
    config,
    JSON.stringify({ identities: [{ name: 'local', credentials: [credentials], actions: ['Admin'] }] }),
    { mode: 0o600 },
  );
  const ports = await internalPorts();
  const tempFiles = new TempFileRegistry(join(options.directory, 'leftovers.json'));
  noteSockets(tempFiles, { ...ports, 's3.port': options.port });
  const server = new ManagedProcess({
    name: 'the S3 server',
    command: options.weed,
    args: serverArguments(options, config, ports),
    env: { ...process.env, ...internalKeys(options.directory) },
    logFile: options.logFile,
    python: options.python,
    deathSignal: 'SIGKILL',
  });
  const stop = async (): Promise<void> => {
    // It would wait for its own streams and never finish. Acknowledged writes are on disk by then: killing the server
    // loses nothing (test/real/s3-server.test.ts).
    await server.stop(0);
    tempFiles.remove();
  };
  const endpoint = `http://127.0.0.1:${options.port}`;
  await server.untilReady(() => isHealthy(endpoint, isS3), START_TIMEOUT_MS, stop);
  return { endpoint, ended: server.ended, pid: server.pid, logFile: server.logFile, stop };
}

/** Flag -> port, for the ports of SeaweedFS besides its S3 port. */
async function internalPorts(): Promise<Record<string, number>> {
  const flags = [
    'master.port',
    'master.port.grpc',
    'volume.port',
    'volume.port.grpc',
    'filer.port',
    'filer.port.grpc',
    's3.port.grpc',
  ];
  const ports = await freePorts(flags.length);
  return Object.fromEntries(flags.map((flag, i) => [flag, ports[i] as number]));
}

/**
 * Creates the credentials that the parts of SeaweedFS require from each other: a certificate for gRPC and HTTP, and
 * keys for the Unix sockets, which use plain HTTP. No other process has them. Without them the filer, volume server and
 * master would accept requests of every user of the machine, which could change the bucket without the S3 API.
 */
function internalKeys(directory: string): NodeJS.ProcessEnv {
  const { key, certificate } = selfSignedCertificate();
  const files = { cert: join(directory, 'internal.crt'), key: join(directory, 'internal.key') };
  // Files of an earlier run are deleted, because overwriting would keep their mode.
  for (const file of Object.values(files)) rmSync(file, { force: true });
  writeFileSync(files.cert, certificate, { mode: 0o600 });
  writeFileSync(files.key, key, { mode: 0o600 });
  const env: NodeJS.ProcessEnv = { WEED_HTTPS_CLIENT_ENABLED: 'true', WEED_GRPC_CA: files.cert };
  for (const part of ['MASTER', 'VOLUME', 'FILER', 'S3', 'CLIENT']) {
    for (const protocol of ['GRPC', 'HTTPS']) {
      env[`WEED_${protocol}_${part}_CERT`] = files.cert;
      env[`WEED_${protocol}_${part}_KEY`] = files.key;
      env[`WEED_${protocol}_${part}_CA`] = files.cert;
    }
  }
  const tokens = ['SIGNING', 'SIGNING_READ', 'FILER_SIGNING', 'FILER_SIGNING_READ'];
  for (const token of tokens) env[`WEED_JWT_${token}_KEY`] = randomBytes(24).toString('hex');
  return env;
}

function serverArguments(options: S3ServerOptions, config: string, ports: Record<string, number>): string[] {
  return [
    // Otherwise logs are also written to files in /tmp, which are never deleted.
    '-logtostderr',
    'server',
    '-filer',
    '-s3',
    '-ip=127.0.0.1',
    '-ip.bind=127.0.0.1',
    `-dir=${options.directory}`,
    `-s3.port=${options.port}`,
    `-s3.config=${config}`,
    ...Object.entries(ports).map(([flag, port]) => `-${flag}=${port}`),
    // Features that a local server does not need are off.
    '-s3.port.iceberg=0',
    '-s3.port.lance=0',
    '-s3.iam=false',
    '-master.telemetry=false',
    '-master.peers=none',
    // Models are large, so the number of volumes of 1 GB is limited only by the disk.
    '-master.volumeSizeLimitMB=1024',
    '-volume.max=0',
  ];
}

/** Notes the Unix sockets that SeaweedFS creates in /tmp, named after its ports, and does not delete. */
function noteSockets(tempFiles: TempFileRegistry, ports: Record<string, number>): void {
  for (const [flag, port] of Object.entries(ports)) {
    const [server, , grpc] = flag.split('.');
    tempFiles.note('/tmp', `seaweedfs-${server}${grpc === undefined ? '' : '-grpc'}-${port}.sock`);
  }
}

/** Whether the answer is from an S3 API, which refuses a request without a signature, in XML. */
async function isS3(answer: Response): Promise<boolean> {
  return answer.status === 403 && (await answer.text()).includes('<Error>');
}
