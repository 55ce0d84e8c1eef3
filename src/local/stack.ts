import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Progress } from '../cli/progress';
import type { ReplicaSource } from '../publish/cluster/source';
import type { UserError } from '../core/errors';
import { acquireLock, cacheRoot, makeDirectory, requireFreeSpace } from './install/cache';
import { ensurePython, type PythonEnvironment } from './install/python';
import { ensureSeaweedfs } from './install/seaweedfs';
import { ensureTriton, type TritonInstallation } from './install/triton';
import { makeRelease } from '../publish/make-release';
import type { ReleaseOptions } from '../publish/options';
import { formatLocation, type RepositoryLocation } from '../release/location';
import { S3Store } from '../s3/store';
import { serverEnded } from './hints';
import { startPod, type Pod, type PodPrograms } from './pod';
import { claimPorts } from './process/ports';
import { readReleased } from './publish-batch';
import { emptyLargeBucket, generateCredentials, LOCAL_REGION, startS3Server, type S3Server } from './s3-server';
import { announceStack, localReplica } from './state';

/** The repository of the local S3 server. */
const LOCATION: RepositoryLocation = { bucket: 'models', prefix: 'local' };

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
  /** The programs of a pod. Called while the S3 server starts, because they are compiled. */
  programs: () => Promise<PodPrograms>;
  ports: { 'http-port': number; 'grpc-port': number; 'metrics-port': number; 's3-port': number };
  progress: Progress;
  /** Registers functions that undo the start at the end, in reverse order. */
  defer: (undo: () => Promise<void> | void) => void;
}

/** The servers of `npm run local`, which start without models. */
export interface LocalStack extends Pod {
  replicas: ReplicaSource;
  /** Store of the local bucket. */
  store: S3Store;
  s3: S3Server;
  location: RepositoryLocation;
  /**
   * Resolves when the agent serves the release of the earlier run, or an empty one. False if Triton cannot serve that
   * release: an empty one has replaced it.
   */
  home: Promise<boolean>;
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
  emptyLargeBucket(join(directory, 'bucket'), repository, (text) => progress.line(text));
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
  const { progress, defer, loadTimeoutMs, models, repository } = options;
  const [installation, weed] = await programs;
  // The installation may take minutes, so another process may have taken the ports.
  await claimPorts(ports);
  const step = progress.step('S3 server, Triton and its release agent');
  try {
    const credentials = generateCredentials();
    const starting = startS3Server({
      weed,
      python: environment.python,
      directory: join(directory, 'bucket'),
      logFile: join(directory, 's3.log'),
      port: ports['s3-port'],
      credentials,
    });
    const endpointUrl = `http://127.0.0.1:${ports['s3-port']}`;
    const bucket = { bucket: LOCATION.bucket, endpointUrl, region: LOCAL_REGION, credentials };
    const store = new S3Store(bucket);
    defer(() => store.close());
    const prepare = async (): Promise<boolean> => {
      const server = await starting;
      defer(() => server.stop());
      await store.ensureBucket();
      return prepareRelease({ store, location: LOCATION }, models, options);
    };
    const isFresh = prepare();
    // It may fail while something else fails, or before it is awaited.
    isFresh.catch(() => undefined);
    const { 'http-port': http, 'grpc-port': grpc, 'metrics-port': metrics } = ports;
    const [s3, pod] = await Promise.all([
      starting,
      startPod({
        ...{ installation, environment, directory, endpointUrl, credentials, loadTimeoutMs, defer, isFresh },
        programs: await options.programs(),
        bucket: formatLocation(LOCATION),
        startTimeoutMs: START_TIMEOUT_MS,
        ports: { http, grpc, metrics },
      }),
    ]);
    const { httpUrl, grpcAddress, modelControlKey, agentUrl, logFile } = pod.triton;
    const addresses = { httpUrl, grpcAddress, modelControlKey, agentUrl, logFile };
    defer(
      announceStack(directory, {
        ...{ pid: process.pid, repository, endpointUrl, region: LOCAL_REGION, credentials },
        bucket: formatLocation(LOCATION),
        ...addresses,
      }),
    );
    const replicas = replicasOf(pod);
    const home = servesRelease(pod).then(async (isServed) => {
      if (!isServed) await commitWithout(undefined, { store, location: LOCATION }, loadTimeoutMs);
      return isServed;
    });
    home.catch(() => undefined);
    step.done();
    return { ...pod, replicas, store, s3, location: LOCATION, home };
  } catch (error) {
    step.failed();
    throw error;
  }
}

type Bucket = Pick<ReleaseOptions, 'store' | 'location'>;

/**
 * Removes the models of the earlier run that are not selected, so that the agent does not load them.
 * @returns whether the agent has to begin without the release that it served in the earlier run
 */
async function prepareRelease(
  bucket: Bucket,
  models: readonly string[],
  { loadTimeoutMs, progress }: StackOptions,
): Promise<boolean> {
  const { release } = await readReleased(bucket, []);
  const others = Object.keys(release?.models ?? {}).filter((name) => !models.includes(name));
  if (others.length > 0) {
    progress.line(
      `     ${others.join(', ')} of an earlier run are removed from the local release; a rollback restores them`,
    );
  }
  if (release !== undefined && others.length === 0) return false;
  await commitWithout(others, bucket, loadTimeoutMs);
  return true;
}

/**
 * Makes a release without these models the current one, or without any. An agent tries a release only if it serves another
 * one, to which it can return; so this is the first release of a bucket too.
 */
async function commitWithout(
  names: readonly string[] | undefined,
  bucket: Bucket,
  loadTimeoutMs: number,
): Promise<void> {
  await makeRelease(
    ({ current }) => {
      const remove = names ?? Object.keys(current?.models ?? {});
      return Promise.resolve({ models: [], remove: [...remove], origin: 'npm run local' });
    },
    { ...bucket, untried: true, loadTimeoutMs, waitMs: 0 },
  );
}

/** A publisher does not wait for a pod that is gone. */
function replicasOf({ triton, agent }: Pod): ReplicaSource {
  const replicas = localReplica(triton);
  let isGone = false;
  void agent.ended.then(() => (isGone = true));
  return { ...replicas, list: () => (isGone ? Promise.resolve([]) : replicas.list()) };
}

const POLL_MS = 200;

/**
 * @returns false if the agent cannot have Triton serve the current release
 * @throws UserError if the agent has ended
 */
async function servesRelease({ agent }: Pod): Promise<boolean> {
  let ended: string | undefined;
  void agent.ended.then((how) => (ended = how));
  for (;;) {
    const state = await agent.client.getState().catch(() => undefined);
    if (ended !== undefined) throw serverEnded('the release agent', ended, agent.logFile);
    if ((state?.release ?? null) !== null) return true;
    if ((state?.problem ?? null) !== null) return false;
    await sleep(POLL_MS);
  }
}

/** Rejects when one of the servers ends. */
export async function untilServerEnds({ triton, s3, agent }: LocalStack): Promise<never> {
  const ended = (name: string, server: { ended: Promise<string>; logFile: string }): Promise<UserError> =>
    server.ended.then((how) => serverEnded(name, how, server.logFile));
  throw await Promise.race([
    ended('tritonserver', triton),
    ended('the S3 server', s3),
    ended('the release agent', agent),
  ]);
}

/** Folder with the bucket and logs of this repository's local stack. */
export function localDirectory(repository: string): string {
  const id = createHash('sha256').update(repository).digest('hex').slice(0, 12);
  return join(cacheRoot(), 'local', id);
}
