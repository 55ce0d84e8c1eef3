import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../../core/abort';
import { PartialFailureError, UserError } from '../../core/errors';
import {
  PUBLISHER_CONTROL_KEY_VARIABLE,
  replicaClient,
  getRestart,
  type Replica,
  type ReplicaSource,
} from '../../cluster/source';
import { TritonError, type ModelIndexEntry } from '../../triton/client';
import type { TritonHttpClient } from '../../triton/http';
import { explainLoadFailure } from '../../triton/load-failure';
import type { Lock } from '../lock';
import { DIGEST_PARAMETER } from '../plan/desired';

const POLL_MS = 100;
const WAIT_FOR_PODS_MS = 1000;

const ELSEWHERE = 'check that --model-repository of this replica is the repository that you publish to';

/** Time for a version to appear in the index after the server reported that it was loaded. */
const APPEARS_MS = 3000;

/**
 * For one model on one replica. An unload waits for the requests in flight, which get the same time when a pod is shut
 * down (exitTimeoutSeconds). An unload never ends if a process of the model has died, so waiting longer only delays a
 * rollback.
 */
const UNLOAD_TIMEOUT_MS = 30_000;

/** The properties of a model that matter to a replica. */
export interface ServedModel {
  name: string;
  /** Ascending. */
  served: number[];
  /** Empty if another tool published the model, because its configuration has no digest. */
  digest: string;
  /** The composing models of an ensemble. */
  composedOf?: readonly string[];
}

/** The models that each replica serves after a rollout. */
export interface RolloutTarget {
  /** In load order: composing models before their ensembles. */
  models: ServedModel[];
  /** Models to unload, ensembles before their composing models. */
  removed: ServedModel[];
}

/** A model that a replica did not unload in time. */
export interface StillLoaded {
  replica: string;
  model: string;
  /** Why the model counts as loaded: `UNLOADING after 30 s`, or the server's reason. */
  reason: string;
  /** How to restart the replica, which unloads the model. */
  restart: string;
}

export interface RolloutOptions {
  /** For one model on one replica, from the request to load it to READY. */
  loadTimeoutMs: number;
  /** For one model on one replica, from the request to unload it to its end; default: UNLOAD_TIMEOUT_MS. */
  unloadTimeoutMs?: number;
  signal?: AbortSignal;
  /** Models are loaded and unloaded only while this is held. */
  lock?: Pick<Lock, 'requireHeld'>;
  /**
   * Loads without an answer, as `REPLICA MODEL`. A rollout adds and deletes entries. A later rollout loads these models
   * also if the index shows them as READY, because their state may still change.
   */
  unconfirmedLoads?: Set<string>;
  /** Load models again also if a replica reports them as READY, because a killed publisher may have requested another state. */
  reload?: boolean;
  /**
   * Verifies the answers of a model that a replica serves. An error ends the rollout, like a failed load. `isNew`: the
   * model, or one of its steps, was just loaded.
   */
  ask?: (replica: Replica, client: TritonHttpClient, model: ServedModel, isNew: boolean) => Promise<void>;
  onLoading?: (replica: string, model: string) => void;
  onReady?: (replica: string, model: string, milliseconds: number) => void;
  onUnloading?: (replica: string, model: string) => void;
  onUnloaded?: (replica: string, model: string) => void;
  /** Called instead of throwing when a model cannot be unloaded; the rollout continues. */
  onStillLoaded?: (stuck: StillLoaded) => void;
  /** Called instead of throwing, so that the remaining replicas are still updated. */
  onFailure?: (replica: string, error: Error) => void;
  /** False: do not wait for replicas that are still starting. */
  waitForPending?: boolean;
  /** Called while the rollout waits for replicas that are still starting. */
  onWaiting?: (replicas: readonly string[]) => void;
}

/** The result of a rollout. --json prints it, so its fields keep their names. */
export interface RolloutResult {
  /** Names of the replicas that serve the target. */
  settled: string[];
  /** Names of the replicas that were still starting at the end. It is unknown which models they serve. */
  starting: string[];
}

/**
 * Updates all replicas to the target, one after the other. The first is the canary: if it rejects a model, no other
 * replica is changed. Replicas that appear during the rollout are updated too. A single replica that disappears is
 * ignored.
 * @throws UserError with the server's own reason if a model does not become READY
 */
export async function rollOut(
  source: ReplicaSource,
  target: RolloutTarget,
  options: RolloutOptions,
): Promise<RolloutResult> {
  const updated = new Map<string, Replica>();
  let lost = 0;
  let deadline = Date.now() + options.loadTimeoutMs;
  for (;;) {
    options.signal?.throwIfAborted();
    const replicas = await source.list();
    const next = replicas.find((replica) => replica.ready && !updated.has(getId(replica)));
    if (next !== undefined) {
      if (await updateUnlessGone(source, next, target, options, lost > 0)) updated.set(getId(next), next);
      else lost += 1;
      deadline = Date.now() + options.loadTimeoutMs;
      continue;
    }
    // A pod that is starting may have read the previous state. A pod whose server does not run yet has read nothing.
    const starting = replicas.filter(({ ready, started }) => !ready && started !== false).map(({ name }) => name);
    // A replica that never becomes ready must not block the rollout forever.
    if (starting.length === 0 || options.waitForPending === false || Date.now() > deadline) {
      return { settled: [...updated.values()].map(({ name }) => name), starting };
    }
    options.onWaiting?.(starting);
    await abortable(sleep(WAIT_FOR_PODS_MS), options.signal);
  }
}

/**
 * Waits for replicas that are starting, up to the load timeout. Triton downloads every version folder of a model when it
 * starts, and does not serve the model if an object disappears meanwhile.
 * @throws UserError if replicas are still starting
 */
export async function requireNoneStarting(
  { replicas, ...options }: RolloutOptions & { replicas: ReplicaSource | undefined },
  what: string,
): Promise<void> {
  if (replicas === undefined) return;
  const { starting } = await rollOut(replicas, { models: [], removed: [] }, options);
  if (starting.length === 0) return;
  throw new UserError(`${what} while replicas are still starting: ${starting.join(', ')}`, { hint: STARTING_HINT });
}

export const STARTING_HINT = 'wait until these replicas are ready, or delete them; then run the command again';

const getId = ({ name, uid }: Replica): string => uid ?? name;

/**
 * Updates one replica. A pod may be deleted during the update, by a rollout of its Deployment or a scale-down. The
 * first time, this is not a failure. If the replica is still listed, or another replica disappeared before, the new
 * models probably caused the failure.
 * @param isSecond whether another replica disappeared before
 * @returns whether the replica was updated; false if it disappeared
 */
async function updateUnlessGone(
  source: ReplicaSource,
  replica: Replica,
  target: RolloutTarget,
  options: RolloutOptions,
  isSecond: boolean,
): Promise<boolean> {
  try {
    await settle(replica, target, options);
    return true;
  } catch (error) {
    options.signal?.throwIfAborted();
    const isListed = (await source.list()).some((other) => getId(other) === getId(replica));
    if (!isListed && !isSecond) return false;
    if (options.onFailure === undefined) throw error;
    options.onFailure(replica.name, error as Error);
    return true;
  }
}

/** Updates one replica to the target. Models that it already serves as desired are not loaded again. */
async function settle(replica: Replica, target: RolloutTarget, options: RolloutOptions): Promise<void> {
  const client = replicaClient(replica);
  try {
    const index = await readIndex(client, replica);
    const renewed = new Set<string>();
    for (const model of target.models) {
      options.signal?.throwIfAborted();
      const load = `${replica.name} ${model.name}`;
      const isSure = options.reload !== true && options.unconfirmedLoads?.has(load) !== true;
      const isServed = isSure && (await servesAsPublished(client, index, model));
      const started = Date.now();
      const deadline = started + options.loadTimeoutMs;
      if (!isServed) {
        options.lock?.requireHeld();
        options.onLoading?.(replica.name, model.name);
        options.unconfirmedLoads?.add(load);
        await loadModel(client, replica, model, options, () => options.unconfirmedLoads?.delete(load));
        await waitUntilReady(client, replica, model, { ...options, deadline });
        await requirePublished(client, replica, model);
        options.onReady?.(replica.name, model.name, Date.now() - started);
      }
      const isNew = !isServed || model.composedOf?.some((step) => renewed.has(step)) === true;
      if (isNew) renewed.add(model.name);
      // Triton briefly takes an ensemble out of service while it loads one of its steps.
      if (isServed && isNew && options.ask !== undefined)
        await waitUntilReady(client, replica, model, { ...options, deadline });
    }
    // Only now, because a model of the python backend may call any other model of the release.
    for (const model of target.models) {
      options.signal?.throwIfAborted();
      await options.ask?.(replica, client, model, renewed.has(model.name));
    }
    for (const model of target.removed) {
      const load = `${replica.name} ${model.name}`;
      if (options.unconfirmedLoads?.has(load) !== true && !(await servesOurs(client, model))) continue;
      options.lock?.requireHeld();
      options.onUnloading?.(replica.name, model.name);
      const reason = await unload(client, model.name, options);
      options.unconfirmedLoads?.delete(load);
      if (reason === undefined) options.onUnloaded?.(replica.name, model.name);
      else stillLoaded({ replica: replica.name, model: model.name, reason, restart: getRestart(replica) }, options);
    }
  } finally {
    client.close();
  }
}

/** @throws UserError if the replica does not answer */
export async function requireAnswers(replica: Replica): Promise<void> {
  const client = replicaClient(replica);
  try {
    await readIndex(client, replica);
  } finally {
    client.close();
  }
}

/** The repository index of a replica. */
export async function readIndex(client: TritonHttpClient, replica: Replica): Promise<ModelIndexEntry[]> {
  try {
    return await client.repositoryIndex();
  } catch (cause) {
    if (cause instanceof TritonError && cause.status === 'HTTP 403') throw refused(replica, cause);
    throw new UserError(`replica ${replica.name} does not answer: ${(cause as Error).message}`, {
      hint: 'check its address, and that the server runs with --model-control-mode=explicit',
      cause,
    });
  }
}

function refused({ name, modelControlKey }: Replica, cause: TritonError): UserError {
  const how = modelControlKey === undefined ? 'without its key' : 'with the given key';
  return new UserError(`replica ${name} denies model control ${how}: ${cause.message}`, {
    hint: `set ${PUBLISHER_CONTROL_KEY_VARIABLE} to the key of the replica, or use --stack or --local, which read the key`,
    cause,
  });
}

/** Whether a replica serves exactly the desired versions of the model, with exactly its configuration. */
async function servesAsPublished(
  client: TritonHttpClient,
  index: readonly ModelIndexEntry[],
  model: ServedModel,
): Promise<boolean> {
  if (model.digest === '') return false;
  const ready = index
    .filter(({ name, state }) => name === model.name && state === 'READY')
    .map((entry) => entry.version);
  const desired = model.served.map(String);
  if (ready.length !== desired.length || !desired.every((version) => ready.includes(version))) return false;
  try {
    return (await loadedDigest(client, model)) === model.digest;
  } catch (error) {
    // Triton takes an ensemble out of service if a loaded step does not fit it. The index was read before that.
    if (error instanceof TritonError && error.answered) return false;
    throw error;
  }
}

/**
 * Whether a replica serves the model as this publisher published it. A model of the same name from another source, on a
 * server that was named by mistake, must not be unloaded.
 */
async function servesOurs(client: TritonHttpClient, model: ServedModel): Promise<boolean> {
  const index = await client.repositoryIndex();
  const ready = index.find(({ name, state }) => name === model.name && state === 'READY');
  if (ready === undefined) return false;
  return model.digest === '' || (await getDigest(client, model.name, Number(ready.version))) === model.digest;
}

/** The digest in the configuration that the server has loaded; undefined if it has none. */
export async function loadedDigest(client: TritonHttpClient, model: ServedModel): Promise<string | undefined> {
  return getDigest(client, model.name, model.served.at(-1));
}

async function getDigest(client: TritonHttpClient, name: string, version?: number): Promise<string | undefined> {
  const config = (await client.modelConfig(name, version)) as {
    parameters?: Record<string, { string_value?: string }>;
  };
  return config.parameters?.[DIGEST_PARAMETER]?.string_value;
}

/** Detects a replica that reads another bucket: it loads the model without an error, but serves other content. */
async function requirePublished(client: TritonHttpClient, replica: Replica, model: ServedModel): Promise<void> {
  if (model.digest === '') return;
  const digest = await loadedDigest(client, model);
  if (digest === model.digest) return;
  throw new UserError(
    `${replica.name} loaded ${model.name} with another configuration than the published one ` +
      `(${DIGEST_PARAMETER} is ${digest ?? 'not set'}, expected ${model.digest})`,
    { hint: ELSEWHERE },
  );
}

async function loadModel(
  client: TritonHttpClient,
  replica: Replica,
  model: ServedModel,
  { loadTimeoutMs, signal }: RolloutOptions,
  onAnswer: () => void,
): Promise<void> {
  try {
    await abortable(client.loadModel(model.name, { timeoutMs: loadTimeoutMs }), signal);
    onAnswer();
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof TritonError && cause.answered) onAnswer();
    const { message, hint } = explainLoadFailure(model.name, (cause as Error).message);
    throw new UserError(`${replica.name} could not load ${model.name}: ${message}`, {
      hint:
        cause instanceof TritonError && cause.status === 'timeout'
          ? describeHang(replica, model.name)
          : /explicit/i.test(message)
            ? 'start the replica with --model-control-mode=explicit'
            : /failed to poll/.test(message)
              ? ELSEWHERE
              : (hint ??
                `fix ${model.name} ${model.served.join(' ')} and publish again; the version number can be reused`),
      cause,
    });
  }
}

/** Triton does not abort a load, and later loads of the model wait for it. */
const describeHang = (replica: Replica, model: string): string =>
  `Triton may still wait for the process of ${model}; ${replica.log === undefined ? '' : `its log: ${replica.log}; `}` +
  `a restart of the replica ends the load, and the replica then loads the release: ${getRestart(replica)}`;

/** Polls the repository index, because the answer 200 to a load does not prove that the versions are served. */
async function waitUntilReady(
  client: TritonHttpClient,
  replica: Replica,
  model: ServedModel,
  { signal, deadline }: RolloutOptions & { deadline: number },
): Promise<void> {
  const loaded = Date.now();
  for (;;) {
    signal?.throwIfAborted();
    const states = getStates(await client.repositoryIndex(), model);
    const [first, ...others] = states.filter(({ state }) => state !== 'READY');
    if (first === undefined) return;
    const isLost = ({ state }: ServedVersion): boolean =>
      state === 'UNAVAILABLE' || (state === 'absent' && Date.now() > loaded + APPEARS_MS);
    const worst = [first, ...others].find(isLost);
    if (worst !== undefined || Date.now() > deadline) {
      const { version, state, reason } = worst ?? first;
      const elsewhere = state === 'absent' || reason === 'unloaded';
      throw new UserError(
        `${replica.name}: ${model.name} version ${version} is ${state}${reason === '' ? '' : `: ${reason}`}`,
        { hint: elsewhere ? ELSEWHERE : undefined },
      );
    }
    await sleep(POLL_MS);
  }
}

/** @returns why the model is still loaded; undefined if it was unloaded */
async function unload(
  client: TritonHttpClient,
  name: string,
  { unloadTimeoutMs: timeoutMs = UNLOAD_TIMEOUT_MS, signal }: RolloutOptions,
): Promise<string | undefined> {
  const deadline = Date.now() + timeoutMs;
  try {
    await abortable(client.unloadModel(name, { timeoutMs }), signal);
    for (;;) {
      const index = await client.repositoryIndex();
      const loaded = index.find((entry) => entry.name === name && isInMemory(entry));
      if (loaded === undefined) return undefined;
      if (Date.now() > deadline) return `${loaded.state} after ${timeoutMs / 1000} s`;
      await abortable(sleep(POLL_MS), signal);
    }
  } catch (error) {
    signal?.throwIfAborted();
    return (error as Error).message;
  }
}

/** Whether a server still holds a version in memory. */
const isInMemory = ({ state }: ModelIndexEntry): boolean => ['READY', 'UNLOADING', 'LOADING'].includes(state);

function stillLoaded(stuck: StillLoaded, { onStillLoaded }: RolloutOptions): void {
  if (onStillLoaded === undefined) throw stillLoadedError('a model could not be unloaded', [stuck]);
  onStillLoaded(stuck);
}

/** Names each replica with the models that are still loaded on it, and the command that restarts it. */
export function stillLoadedError(message: string, stuck: readonly StillLoaded[], cause?: unknown): PartialFailureError {
  const replicas = [...new Set(stuck.map(({ replica }) => replica))];
  const problems = replicas.map((file) => {
    const models = stuck.filter(({ replica }) => replica === file);
    const held = models.map(({ model, reason }) => `${model} is still loaded (${reason})`).join(', ');
    return { file, message: held, hint: models[0]?.restart };
  });
  return new PartialFailureError(message, {
    problems,
    hint: 'restart these replicas one after the other; each of them then loads the release',
    cause,
  });
}

/** The state of a model version on a replica: READY, LOADING, UNLOADING, UNAVAILABLE, or absent. */
export interface ServedVersion {
  model: string;
  version: number;
  state: string;
  reason: string;
  /**
   * For an ensemble that is not served because of one of its steps: the name of that step. `reason` then has the step's
   * reason.
   */
  failedStep?: string;
}

/** The state of each desired version of `model` in a repository index. */
export function getStates(index: readonly ModelIndexEntry[], model: ServedModel): ServedVersion[] {
  return model.served.map((version) => {
    const entry = index.find(({ name, version: v }) => name === model.name && v === String(version));
    return { model: model.name, version, state: entry?.state ?? 'absent', reason: entry?.reason ?? '' };
  });
}
