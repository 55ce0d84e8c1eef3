import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { abortable } from '../core/abort';
import { UserError } from '../core/errors';
import { formatBytes } from '../core/format';
import type { ReplicaSource } from '../cluster/source';
import { readRepository } from '../model';
import { claimPorts } from './process/ports';
import type { Progress } from '../cli/progress';
import { ensurePlaceholder } from '../publish/apply/repository-writer';
import { formatLocation, tritonRepositoryUrl, type RepositoryLocation } from '../release/location';
import type { PublishOptions } from '../publish/publish';
import { COMMIT_MS } from '../publish/trial/head-file';
import { readHead } from '../publish/release/release';
import type { ServedVersion } from '../publish/apply/rollout';
import { servedNow } from '../publish/status';
import type { DesiredModel } from '../publish/plan/desired';
import { S3Store } from '../s3/store';
import { acquireLock, cacheRoot, makeDirectory, requireFreeSpace } from '../install/cache';
import { ensurePython, type PythonEnvironment } from '../install/python';
import { ensureSeaweedfs } from '../install/seaweedfs';
import { ensureTriton, type TritonInstallation } from '../install/triton';
import { describeTrace, traceModels } from '../trace/trace';
import { explainLoadFailure } from '../triton/load-failure';
import { WEIGHTS_FILE } from '../model/weights-file';
import { startTriton, type TritonProcess, type TritonProcessOptions } from './triton-server';
import { ModelLoads, type Loaded } from './load-models';
import { installModelPackages } from './model-packages';
import { startPod, type Pod, type PodPrograms } from './pod';
import { publishSelected } from './publish-selected';
import { generateCredentials, LOCAL_REGION, startS3Server, type S3Server, type S3ServerOptions } from './s3-server';
import { askEachModel, isWrong, wrongAnswer, type SmokeTestResult } from './smoke-test';
import {
  failedBecause,
  failedModel,
  failedWith,
  readValidModels,
  withDependents,
  type FailedModel,
} from './valid-models';
import { AGENT_LOCATION, serveThroughAgent } from './serve-through-agent';
import { announceStack, localReplica } from './state';
import type { Timings } from './timings';

/** The repository of the local S3 server. */
const LOCATION: RepositoryLocation = { bucket: 'local', prefix: 'models' };

/** The artifacts, the bucket and Triton's copy each hold all models. The models of this package take 1.2 GB. */
const WORKING_BYTES = 4e9;

/** From the start of tritonserver to its first answer, without any model. */
const START_TIMEOUT_MS = 120_000;

/** Time for one model to reload while nothing waits for it. */
export const RELOAD_TIMEOUT_MS = 600_000;

export interface StackOptions {
  repository: string;
  models: readonly string[];
  /** Models that were left out before. */
  invalid: readonly FailedModel[];
  /** MODEL=FILE, for tracing. */
  weights: readonly string[];
  /** Limit for the load of one model. */
  loadTimeoutMs: number;
  /** Serve models without asking them. */
  noAsk: boolean;
  /** Serve through a release agent, with these programs. Default: Triton reads the bucket. */
  pod?: PodPrograms | undefined;
  ports: { 'http-port': number; 'grpc-port': number; 'metrics-port': number; 's3-port': number };
  progress: Progress;
  timings: Timings;
  /** Registers functions that undo the start at the end, in reverse order. */
  defer: (undo: () => Promise<void> | void) => void;
}

export interface LocalStack {
  triton: TritonProcess;
  replicas: ReplicaSource;
  /** For publishers, if the stack has a release agent. */
  through?: Pick<PublishOptions, 'agents' | 'commitStore'>;
  agent?: Pod['agent'];
  /** Store of the local bucket. */
  store: S3Store;
  /** Interpreter for tracing. */
  python: string;
  /** Models whose files are not served. Their previous version may be served. */
  failed: FailedModel[];
  /** The answers of the models that were loaded. */
  answers: SmokeTestResult[];
  s3: S3Server;
  location: RepositoryLocation;
  /** The published models, loaded or not, ordered so that the models of an ensemble precede the ensemble. */
  models: LocalModel[];
  /** State of each version that is served according to the repository. */
  versions: ServedVersion[];
  /** Model -> milliseconds from the start of its first load to READY. */
  loadMs: ReadonlyMap<string, number>;
}

/** A model as the local stack serves it. */
export type LocalModel = Pick<DesiredModel, 'name' | 'served' | 'digest' | 'composedOf' | 'weights'>;

/**
 * Starts everything: tools, S3, traced models, published repository, and Triton with the models loaded. Models that fail
 * are left out and named in the result.
 * @throws UserError if no model is left
 */
export async function startStack(options: StackOptions): Promise<LocalStack> {
  const { progress, timings, defer } = options;
  requireSome(options.models, options.invalid);
  const directory = localDirectory(options.repository);
  makeDirectory(directory);
  writeFileSync(
    join(directory, 'README'),
    `Bucket and logs of "npm run local" for ${options.repository}. You can delete this folder.\n`,
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
  const unpackaged = await timings.measure('set-up: packages of models', () => installPackages(installation, options));
  requireFreeSpace(directory, WORKING_BYTES, 'serving the models (artifacts, bucket, and the copy that Triton loads)');
  const credentials = generateCredentials();
  // Tracing is limited by the processor, so the S3 server starts concurrently.
  const s3Starts = timings.measure('S3 server', () =>
    startS3({ weed, environment, directory, port: ports['s3-port'], credentials, defer }),
  );
  const tracing = timings.measure('trace', () => trace(environment, options));
  const [server, untraced] = await Promise.all([s3Starts, tracing]);
  const { names, failed } = await soundNames(options, [...unpackaged, ...untraced]);
  requireSome(names, [...options.invalid, ...failed]);

  const location = options.pod === undefined ? LOCATION : AGENT_LOCATION;
  const bucket = { bucket: location.bucket, endpointUrl: server.endpoint, region: LOCAL_REGION, credentials };
  const store = new S3Store(bucket);
  defer(() => store.close());
  await store.ensureBucket();
  const claimed = async (): Promise<Pick<TritonProcessOptions, 'ports' | 'installation' | 'environment'>> => {
    // Tracing may take minutes, so another process may have taken the ports.
    const { 'http-port': http, 'grpc-port': grpc, 'metrics-port': metrics } = ports;
    await claimPorts({ 'http-port': http, 'grpc-port': grpc, 'metrics-port': metrics });
    return { ports: { http, grpc, metrics }, installation, environment };
  };
  const serveDirectly = async (): Promise<ServingStack> => {
    await ensurePlaceholder(store, LOCATION);
    const { loaded, ...serving } = await publishAll(store, names, options, async (models, signal) => {
      const own = await claimed();
      return timings.measure('load until READY', () =>
        progress.run('tritonserver loads the models from S3', async (step) => {
          const loads = new ModelLoads(options.loadTimeoutMs, (text) => step.update(text));
          const starts = startTriton({
            ...own,
            repository: tritonRepositoryUrl(LOCATION, server.endpoint),
            directory: join(directory, 'triton'),
            credentials: { ...credentials, region: LOCAL_REGION },
            load: [],
            startTimeoutMs: START_TIMEOUT_MS,
            onEvent: (event) => loads.see(event),
          });
          // If the start is interrupted here, the server is stopped with all processes that still run.
          const triton = await abortable(starts, signal);
          defer(() => triton.stop());
          return { triton, loaded: await loads.loadAll(triton, models) };
        }),
      );
    });
    return { ...serving, loadMs: loaded.milliseconds, replicas: localReplica(serving.triton) };
  };
  const serveInPod = async (programs: PodPrograms): Promise<ServingStack> => {
    const commitStore = new S3Store({ ...bucket, deadlineMs: COMMIT_MS });
    defer(() => commitStore.close());
    const { loadTimeoutMs } = options;
    const loads = new ModelLoads(loadTimeoutMs, () => undefined);
    const { pod, ...serving } = await serveThroughAgent({ store, commitStore }, names, options, async (isFresh) =>
      startPod({
        isFresh,
        ...(await claimed()),
        ...{ programs, directory, bucket: formatLocation(location), s3: server, credentials, loadTimeoutMs, defer },
        startTimeoutMs: START_TIMEOUT_MS,
        onEvent: (event) => loads.see(event),
      }),
    );
    const answers = await askAll(pod.triton, names, options);
    const versions = await servedNow(pod.triton, serving.models);
    return { ...pod, ...serving, answers, versions, failed: [], loadMs: loads.milliseconds };
  };
  const served = await (options.pod === undefined ? serveDirectly() : serveInPod(options.pod));
  const { httpUrl, grpcAddress, modelControlKey, agentUrl, logFile } = served.triton;
  defer(
    announceStack(directory, {
      pid: process.pid,
      repository: options.repository,
      bucket: formatLocation(location),
      endpointUrl: server.endpoint,
      region: LOCAL_REGION,
      credentials,
      ...{ httpUrl, grpcAddress, modelControlKey, agentUrl, logFile },
    }),
  );
  const { python } = environment;
  return {
    ...served,
    ...{ store, python, s3: server, location },
    failed: [...options.invalid, ...failed, ...served.failed],
  };
}

/** What a stack serves, and how. */
type ServingStack = Omit<LocalStack, 'store' | 'python' | 's3' | 'location'>;

/** @returns the models whose packages cannot be installed */
async function installPackages(
  installation: TritonInstallation,
  { repository, models, progress }: StackOptions,
): Promise<FailedModel[]> {
  try {
    await installModelPackages(installation, repository, models, progress);
    return [];
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
  }
  const failed: FailedModel[] = [];
  for (const name of models) {
    try {
      await installModelPackages(installation, repository, [name], progress);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      failed.push(failedModel(name, [{ file: name, message: error.message }]));
    }
  }
  return failed;
}

/** The models that can be published, and the models that failed so far with the ensembles that need them. */
async function soundNames(
  { repository, models }: StackOptions,
  unmade: readonly FailedModel[],
): Promise<{ names: string[]; failed: FailedModel[] }> {
  const { models: configured } = await readRepository(repository, { models, artifacts: false });
  const without = withDependents(unmade, configured).map(({ name }) => name);
  const left = models.filter((name) => !without.includes(name));
  const sound = left.length === 0 ? { models: [], failed: [] } : await readValidModels(repository, { models: left });
  return {
    names: sound.models.map(({ name }) => name),
    failed: withDependents([...unmade, ...sound.failed], configured),
  };
}

/** @throws UserError with the reasons of `failed` if there are no `names` of models to serve */
function requireSome(names: readonly string[], failed: readonly FailedModel[]): void {
  if (names.length > 0) return;
  throw new UserError('cannot serve any model', { problems: failed.flatMap(({ problems }) => problems) });
}

/** @throws UserError that names each model that is not served, with the reason */
export function requireAllServed({
  versions,
  failed,
  triton,
}: Pick<LocalStack, 'versions' | 'failed' | 'triton'>): void {
  if (failed.length === 0) return;
  const isUnloaded = versions.some(({ state }) => state !== 'READY');
  throw new UserError('cannot serve every model', {
    problems: failed.flatMap(({ problems }) => problems),
    hint: isUnloaded ? readLog(triton) : undefined,
  });
}

/** Describes why a version is not served, with the next step if known. */
export function describeState({ model, state, reason, failedStep }: Omit<ServedVersion, 'version'>): string {
  const { message, hint } = explainLoadFailure(failedStep ?? model, reason);
  return `${state} ${message}${hint === undefined ? '' : `\n    -> ${hint}`}`.trim();
}

/** Folder with the bucket and logs of this repository's local stack. */
export function localDirectory(repository: string): string {
  const id = createHash('sha256').update(repository).digest('hex').slice(0, 12);
  return join(cacheRoot(), 'local', id);
}

async function startS3(options: {
  weed: string;
  environment: PythonEnvironment;
  directory: string;
  port: number;
  credentials: S3ServerOptions['credentials'];
  defer: StackOptions['defer'];
}): Promise<S3Server> {
  const server = await startS3Server({
    weed: options.weed,
    python: options.environment.python,
    directory: join(options.directory, 's3'),
    logFile: join(options.directory, 's3.log'),
    port: options.port,
    credentials: options.credentials,
  });
  options.defer(() => server.stop());
  return server;
}

/** @returns the models that could not be traced */
async function trace(environment: PythonEnvironment, options: StackOptions): Promise<FailedModel[]> {
  const models = options.models.filter((name) => hasTrace(options.repository, name));
  if (models.length === 0) return [];
  const step = options.progress.step('trace');
  let made = 0;
  let upToDate = 0;
  const failed: FailedModel[] = [];
  try {
    await traceModels({
      python: environment.python,
      repository: options.repository,
      models,
      weights: options.weights,
      onEvent: (event) => {
        if (event.event === 'progress') step.update(`${event.model}: ${event.step}`);
        if (event.event === 'warning') options.progress.line(`     ${event.model}: warning: ${event.text}`);
        if (event.event === 'up-to-date') upToDate += 1;
        if (event.event === 'done') {
          made += 1;
          options.progress.line(`     ${event.model}: ${formatBytes(event.bytes)}, ${describeTrace(event)}`);
        }
      },
    });
  } catch (error) {
    const problems = error instanceof UserError ? error.problems : [];
    failed.push(
      ...models.flatMap((name) => {
        const own = problems.filter(({ file }) => file === name);
        return own.length === 0 ? [] : [failedModel(name, own)];
      }),
    );
    if (failed.length === 0) {
      step.failed();
      throw error;
    }
  }
  step.done(`${made} traced, ${upToDate} up to date${failed.length === 0 ? '' : `, ${failed.length} FAILED`}`);
  return failed;
}

/** Whether the model's artifact is traced or downloaded here. Other models bring their artifact. */
export const hasTrace = (repository: string, model: string): boolean =>
  ['trace.py', WEIGHTS_FILE].some((name) => existsSync(join(repository, model, name)));

/** A running server, with the models that it could load. */
interface Started {
  triton: TritonProcess;
  loaded: Loaded;
}

/** A running server after every model was asked. */
interface Serving extends Started, Pick<LocalStack, 'models' | 'versions' | 'failed' | 'answers'> {}

/**
 * Publishes to a server that reads the bucket. Of models that failed, the previous version is served, if one can be.
 * @param serve starts the server and loads the models that are then in the bucket
 */
async function publishAll(
  store: S3Store,
  names: readonly string[],
  options: StackOptions,
  serve: (models: readonly DesiredModel[], signal: AbortSignal) => Promise<Started>,
): Promise<Serving> {
  const { repository, loadTimeoutMs, progress, timings, defer } = options;
  const held = Object.keys((await readHead(store, LOCATION))?.release.models ?? {});
  const written = timings.begin('publish');
  const up: { serving?: Serving } = {};
  const bucket = { store, location: LOCATION };
  const { release } = await publishSelected(
    { ...bucket, title: 'publish to S3', ...{ repository, loadTimeoutMs, names, held, progress, defer } },
    (step, signal) => ({
      replicas: {
        describe: () => 'tritonserver',
        list: async () => (up.serving === undefined ? [] : localReplica(up.serving.triton).list()),
        close: () => Promise.resolve(),
      },
      activate: async (models) => {
        signal.throwIfAborted();
        step.done();
        written();
        const { triton, loaded } = await serve(models, signal);
        const ready = models.map(({ name }) => name).filter((name) => isReady(loaded, name));
        const answers = await abortable(askAll(triton, ready, options), signal);
        const failed = failedModels(models, { triton, loaded }, answers);
        up.serving = { triton, loaded, answers, models: [...models], versions: loaded.versions, failed };
        return models.map(({ name }) => name).filter((name) => failed.some((one) => one.name === name));
      },
      // The models were asked when they were loaded.
      ask: () => Promise.resolve(),
    }),
  );
  const { serving } = up;
  if (serving === undefined) throw new Error('published without a server');
  serving.models = serving.models.map((model) => ({ ...model, ...release?.models[model.name] }));
  serving.versions = await versionsNow(serving, []);
  return serving;
}

/** State of each version. The reasons of earlier failures are kept, because the server no longer reports them. */
export async function versionsNow(
  { triton, models, versions }: Pick<LocalStack, 'triton' | 'models' | 'versions'>,
  reloaded: readonly string[],
): Promise<ServedVersion[]> {
  const before = (now: ServedVersion): ServedVersion | undefined =>
    reloaded.includes(now.model) || now.state === 'READY'
      ? undefined
      : versions.find(
          ({ model, version, state }) => model === now.model && version === now.version && state !== 'READY',
        );
  return (await servedNow(triton, models)).map((now) => before(now) ?? now);
}

async function askAll(
  triton: TritonProcess,
  names: string[],
  { repository, noAsk, progress, timings }: StackOptions,
): Promise<SmokeTestResult[]> {
  if (noAsk || names.length === 0) return [];
  const { models } = await readRepository(repository, { models: names });
  return timings.measure('requests', () => progress.run('requests to each model', () => askEachModel(triton, models)));
}

/** The models that cannot be loaded or that answer wrongly, and the ensembles that need them. */
function failedModels(
  models: readonly DesiredModel[],
  { triton, loaded }: Started,
  answers: readonly SmokeTestResult[],
): FailedModel[] {
  const failed: FailedModel[] = [];
  const isFailed = (name: string): boolean => [...failed, ...loaded.failed].some((one) => one.name === name);
  for (const { name, composedOf } of models.filter((model) => !isFailed(model.name))) {
    const unloaded = loaded.versions.find(({ model, state }) => model === name && state !== 'READY');
    const wrong = answers.find((answer) => answer.model === name && isWrong(answer));
    const needs = composedOf.find(isFailed);
    if (unloaded !== undefined) {
      const message = describeState(unloaded);
      const problem = { file: `${name} version ${unloaded.version}`, message };
      failed.push({ ...failedModel(name, [problem]), details: `${message}\n  -> ${readLog(triton)}` });
    } else if (needs !== undefined) failed.push(failedWith(name, needs));
    else if (wrong !== undefined) failed.push(failedBecause(name, wrongAnswer(wrong)));
  }
  return [...failed, ...loaded.failed];
}

export const readLog = ({ logFile }: Pick<TritonProcess, 'logFile'>): string => `read Triton's log: ${logFile}`;

const isReady = ({ versions }: Loaded, name: string): boolean => {
  const own = versions.filter(({ model }) => model === name);
  return own.length > 0 && own.every(({ state }) => state === 'READY');
};
