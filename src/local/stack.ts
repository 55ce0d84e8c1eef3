import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { UserError } from '../core/errors';
import type { ReplicaSource } from '../cluster/source';
import { claimPorts } from './process/ports';
import type { Progress } from '../cli/progress';
import { ensurePlaceholder } from '../publish/apply/repository-writer';
import { formatLocation, tritonRepositoryUrl, type RepositoryLocation } from '../release/location';
import type { PublishOptions } from '../publish/publish';
import { COMMIT_MS } from '../publish/trial/head-file';
import { readHead } from '../publish/release/release';
import { S3Store } from '../s3/store';
import { acquireLock, cacheRoot, makeDirectory, requireFreeSpace } from '../install/cache';
import { ensurePython, type PythonEnvironment } from '../install/python';
import { ensureSeaweedfs } from '../install/seaweedfs';
import { ensureTriton, type TritonInstallation } from '../install/triton';
import { startTriton, type TritonProcess } from './triton-server';
import type { Pod, PodPrograms } from './pod';
import { removeFromRelease } from './publish-batch';
import { emptyLargeBucket, generateCredentials, LOCAL_REGION, startS3Server, type S3Server } from './s3-server';
import { AGENT_LOCATION, startAgent } from './serve-through-agent';
import { serverEnded } from './hints';
import { announceStack, localReplica } from './state';

/** The repository of the local S3 server. */
const LOCATION: RepositoryLocation = { bucket: 'local', prefix: 'models' };

/** The artifacts, the bucket and Triton's copy each hold all models. The models of this package take 1.2 GB. */
const WORKING_BYTES = 4e9;

/** From the start of tritonserver to its first answer, without any model. */
export const START_TIMEOUT_MS = 120_000;

export interface StackOptions {
  repository: string;
  /** Models that will be served. Others of an earlier run are removed from the release. */
  models: readonly string[];
  /** Limit for the load of one model. */
  loadTimeoutMs: number;
  /** Serve through a release agent, with these programs. Default: Triton reads the bucket. */
  pod?: PodPrograms | undefined;
  ports: { 'http-port': number; 'grpc-port': number; 'metrics-port': number; 's3-port': number };
  progress: Progress;
  /** Registers functions that undo the start at the end, in reverse order. */
  defer: (undo: () => Promise<void> | void) => void;
}

/** The servers of `npm run local`, which start without models. */
export interface LocalStack {
  triton: TritonProcess;
  replicas: ReplicaSource;
  /** For publishers, if the stack has a release agent. */
  through?: Pick<PublishOptions, 'agents' | 'commitStore' | 'trials'>;
  agent?: Pod['agent'];
  /** Store of the local bucket. */
  store: S3Store;
  s3: S3Server;
  location: RepositoryLocation;
}

/** The programs that are installed first: tracing needs only them, so it begins while the servers start. */
export interface LocalTools {
  environment: PythonEnvironment;
  /** Resolves when the programs of the servers are installed. */
  installation: Promise<TritonInstallation>;
  stack: Promise<LocalStack>;
}

/** Installs Python, and then starts the servers in the background. */
export async function startStack(options: StackOptions): Promise<LocalTools> {
  const { progress, repository, defer } = options;
  const directory = localDirectory(repository);
  makeDirectory(directory);
  writeFileSync(
    join(directory, 'README'),
    `Bucket and logs of "npm run local" for ${repository}. You can delete this folder.\n`,
  );
  defer(await acquireLock(join(directory, 'lock'), `the local stack of ${repository}`, { wait: false }));
  emptyLargeBucket(join(directory, 's3'), repository, (text) => progress.line(text));
  const ports = await claimPorts(options.ports);
  requireFreeSpace(directory, WORKING_BYTES, 'serving the models (artifacts, bucket, and the copy that Triton loads)');
  const environment = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
  const programs = progress.run('Triton and S3 server programs', () =>
    Promise.all([ensureTriton(environment), ensureSeaweedfs()]),
  );
  const stack = startServers(options, directory, ports, environment, programs);
  // Both are awaited later, and may fail while nothing waits for them yet.
  stack.catch(() => undefined);
  return { environment, installation: programs.then(([installation]) => installation), stack };
}

async function startServers(
  options: StackOptions,
  directory: string,
  ports: StackOptions['ports'],
  environment: PythonEnvironment,
  programs: Promise<[TritonInstallation, string]>,
): Promise<LocalStack> {
  const { progress, defer, loadTimeoutMs, models } = options;
  const [installation, weed] = await programs;
  // The installation may take minutes, so another process may have taken the ports.
  await claimPorts(ports);
  const step = progress.step('S3 server and Triton');
  try {
    const credentials = generateCredentials();
    const s3 = await startS3Server({
      weed,
      python: environment.python,
      directory: join(directory, 's3'),
      logFile: join(directory, 's3.log'),
      port: ports['s3-port'],
      credentials,
    });
    defer(() => s3.stop());
    const location = options.pod === undefined ? LOCATION : AGENT_LOCATION;
    const bucket = { bucket: location.bucket, endpointUrl: s3.endpoint, region: LOCAL_REGION, credentials };
    const store = new S3Store(bucket);
    defer(() => store.close());
    await store.ensureBucket();
    const { 'http-port': http, 'grpc-port': grpc, 'metrics-port': metrics } = ports;
    const own = { ports: { http, grpc, metrics }, installation, environment, startTimeoutMs: START_TIMEOUT_MS };
    const start = async (): Promise<Omit<LocalStack, 'store' | 's3' | 'location'>> => {
      if (options.pod !== undefined) {
        const commitStore = new S3Store({ ...bucket, deadlineMs: COMMIT_MS });
        defer(() => commitStore.close());
        const shared = { programs: options.pod, directory, bucket: formatLocation(location), s3, credentials };
        return startAgent({ store, commitStore }, { ...own, ...shared, loadTimeoutMs, defer }, models, progress);
      }
      await ensurePlaceholder(store, LOCATION);
      const others = Object.keys((await readHead(store, LOCATION))?.release.models ?? {}).filter(
        (name) => !models.includes(name),
      );
      await removeFromRelease(others, { store, location: LOCATION }, options);
      const triton = await startTriton({
        ...own,
        repository: tritonRepositoryUrl(LOCATION, s3.endpoint),
        directory: join(directory, 'triton'),
        credentials: { ...credentials, region: LOCAL_REGION },
        load: [],
      });
      defer(() => triton.stop());
      return { triton, replicas: localReplica(triton) };
    };
    const started = await start();
    const { httpUrl, grpcAddress, modelControlKey, agentUrl, logFile } = started.triton;
    defer(
      announceStack(directory, {
        pid: process.pid,
        repository: options.repository,
        bucket: formatLocation(location),
        endpointUrl: s3.endpoint,
        region: LOCAL_REGION,
        credentials,
        ...{ httpUrl, grpcAddress, modelControlKey, agentUrl, logFile },
      }),
    );
    step.done();
    return { ...started, store, s3, location };
  } catch (error) {
    step.failed();
    throw error;
  }
}

/** Rejects when one of the servers ends. */
export async function untilServerEnds({ triton, s3, agent }: LocalStack): Promise<never> {
  const ended = (name: string, server: { ended: Promise<string>; logFile: string }): Promise<UserError> =>
    server.ended.then((how) => serverEnded(name, how, server.logFile));
  throw await Promise.race([
    ended('tritonserver', triton),
    ended('the S3 server', s3),
    ...(agent === undefined ? [] : [ended('the release agent', agent)]),
  ]);
}

/** Folder with the bucket and logs of this repository's local stack. */
export function localDirectory(repository: string): string {
  const id = createHash('sha256').update(repository).digest('hex').slice(0, 12);
  return join(cacheRoot(), 'local', id);
}
