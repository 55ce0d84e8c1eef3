import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../abort';
import { UserError } from '../errors';
import { CONTROL_KEY_VARIABLE, replicaClient, type Replica, type ReplicaSource } from '../replicas/source';
import { TritonError, type ModelIndexEntry } from '../triton/client';
import type { TritonHttpClient } from '../triton/http';
import { DIGEST_PARAMETER } from './wanted';

const POLL_MS = 100;
const WAIT_FOR_PODS_MS = 1000;

const ELSEWHERE = 'check that its --model-repository is the place that is published to';

/** Time for a version to appear in the index once the server said that it was loaded. */
const APPEARS_MS = 3000;

/** What of a model matters to a server. */
export interface ServedModel {
  name: string;
  /** Ascending. */
  served: number[];
  /** Empty: the configuration has none, as it was not published by us. */
  digest: string;
}

/** What each replica is to serve when a rollout is over. */
export interface RolloutTarget {
  /** In the order in which to load them: what an ensemble is made of before the ensemble. */
  models: ServedModel[];
  /** To be unloaded, ensembles before what they are made of. */
  removed: ServedModel[];
}

export interface RolloutOptions {
  /** For one model on one replica, from the request to load it to READY. */
  loadTimeoutMs: number;
  signal?: AbortSignal;
  /**
   * Loads that were asked for and not answered, as `REPLICA MODEL`: kept here, and in a rollout after it not taken
   * for what the server shows, which may still change.
   */
  unsure?: Set<string>;
  /** Loaded again whatever a replica shows: somebody who is gone may have asked it for another state. */
  reload?: boolean;
  onLoading?: (replica: string, model: string) => void;
  onReady?: (replica: string, model: string, milliseconds: number) => void;
  onUnloaded?: (replica: string, model: string) => void;
  /** Called instead of throwing: the other replicas are gone on with. */
  onFailure?: (replica: string, error: Error) => void;
  /** False: those that are still starting are not waited for. */
  patient?: boolean;
  /** Called while replicas that are still starting are waited for. */
  onWaiting?: (replicas: readonly string[]) => void;
}

/** What a rollout came to. */
export interface RolloutResult {
  /** Names of the replicas that were found to serve the target. */
  settled: string[];
  /** Those that were still starting when the time was up: nobody has seen what they serve. */
  starting: string[];
}

/**
 * Brings every replica to the target, one after the other: the first is the canary, and if it refuses no other one is
 * touched. Replicas that appear meanwhile are brought there too; of those that disappear the first one is forgotten.
 * @throws UserError with the server's own reason when a model does not become READY
 */
export async function rollOut(
  source: ReplicaSource,
  target: RolloutTarget,
  options: RolloutOptions,
): Promise<RolloutResult> {
  const settled = new Map<string, Replica>();
  let lost = 0;
  let deadline = Date.now() + options.loadTimeoutMs;
  for (;;) {
    options.signal?.throwIfAborted();
    const replicas = await source.list();
    const next = replicas.find((replica) => replica.ready && !settled.has(idOf(replica)));
    if (next !== undefined) {
      if (await settleUnlessGone(source, next, target, options, lost > 0)) settled.set(idOf(next), next);
      else lost += 1;
      deadline = Date.now() + options.loadTimeoutMs;
      continue;
    }
    // A pod that starts now may have read what was there before; one whose server does not run yet has read nothing.
    const starting = replicas.filter(({ ready, started }) => !ready && started !== false).map(({ name }) => name);
    // One that never gets ready must not hold us up for ever.
    if (starting.length === 0 || options.patient === false || Date.now() > deadline) {
      return { settled: [...settled.values()].map(({ name }) => name), starting };
    }
    options.onWaiting?.(starting);
    await abortable(sleep(WAIT_FOR_PODS_MS), options.signal);
  }
}

const idOf = ({ name, uid }: Replica): string => uid ?? name;

/**
 * A pod may be deleted while we talk to it, by a rollout of its Deployment or a scale-down: once that is no failure of
 * ours. A server that is still there, or a second one that is lost, was probably brought down by the new models.
 * @param isSecond whether one was lost before
 */
async function settleUnlessGone(
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
    const isListed = (await source.list()).some((other) => idOf(other) === idOf(replica));
    if (!isListed && !isSecond) return false;
    if (options.onFailure === undefined) throw error;
    options.onFailure(replica.name, error as Error);
    return true;
  }
}

/** Brings one replica to the target. What it serves as it should is left alone. */
async function settle(replica: Replica, target: RolloutTarget, options: RolloutOptions): Promise<void> {
  const client = replicaClient(replica);
  try {
    const index = await readIndex(client, replica);
    for (const model of target.models) {
      options.signal?.throwIfAborted();
      const load = `${replica.name} ${model.name}`;
      const isSure = options.reload !== true && options.unsure?.has(load) !== true;
      if (isSure && (await servesAsPublished(client, index, model))) continue;
      const started = Date.now();
      options.onLoading?.(replica.name, model.name);
      options.unsure?.add(load);
      await loadModel(client, replica, model, options, () => options.unsure?.delete(load));
      await waitUntilReady(client, replica, model, { ...options, deadline: started + options.loadTimeoutMs });
      await requirePublished(client, replica, model);
      options.onReady?.(replica.name, model.name, Date.now() - started);
    }
    for (const model of target.removed) {
      const load = `${replica.name} ${model.name}`;
      if (options.unsure?.has(load) !== true && !(await servesOurs(client, model))) continue;
      await unload(client, replica, model.name, options);
      options.unsure?.delete(load);
      options.onUnloaded?.(replica.name, model.name);
    }
  } finally {
    client.close();
  }
}

/** @throws UserError when the replica does not answer */
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
    throw new UserError(`the replica ${replica.name} does not answer: ${(cause as Error).message}`, {
      hint: 'check its address, and that the server runs with --model-control-mode=explicit',
      cause,
    });
  }
}

function refused({ name, modelControlKey }: Replica, cause: TritonError): UserError {
  const how = modelControlKey === undefined ? 'without its key' : 'with the key that was given';
  return new UserError(`the replica ${name} refuses model control ${how}: ${cause.message}`, {
    hint: `set ${CONTROL_KEY_VARIABLE} to its key; --stack takes it from the stack's modelControlKey`,
    cause,
  });
}

/** Whether a replica serves exactly the versions of the model, from exactly its configuration. */
async function servesAsPublished(
  client: TritonHttpClient,
  index: readonly ModelIndexEntry[],
  model: ServedModel,
): Promise<boolean> {
  if (model.digest === '') return false;
  const ready = index
    .filter(({ name, state }) => name === model.name && state === 'READY')
    .map((entry) => entry.version);
  const wanted = model.served.map(String);
  if (ready.length !== wanted.length || !wanted.every((version) => ready.includes(version))) return false;
  return (await loadedDigest(client, model)) === model.digest;
}

/**
 * Whether a replica serves the model as it was published here. One of the same name that came from elsewhere, to a
 * server that was named by mistake, is not ours to unload.
 */
async function servesOurs(client: TritonHttpClient, model: ServedModel): Promise<boolean> {
  const index = await client.repositoryIndex();
  const ready = index.find(({ name, state }) => name === model.name && state === 'READY');
  if (ready === undefined) return false;
  return model.digest === '' || (await digestOf(client, model.name, Number(ready.version))) === model.digest;
}

/** The digest in the configuration that the server has loaded; undefined where there is none. */
export async function loadedDigest(client: TritonHttpClient, model: ServedModel): Promise<string | undefined> {
  return digestOf(client, model.name, model.served.at(-1));
}

async function digestOf(client: TritonHttpClient, name: string, version?: number): Promise<string | undefined> {
  const config = (await client.modelConfig(name, version)) as {
    parameters?: Record<string, { string_value?: string }>;
  };
  return config.parameters?.[DIGEST_PARAMETER]?.string_value;
}

/** A replica that reads another bucket loads without complaint, and serves something else. */
async function requirePublished(client: TritonHttpClient, replica: Replica, model: ServedModel): Promise<void> {
  if (model.digest === '') return;
  const digest = await loadedDigest(client, model);
  if (digest === model.digest) return;
  throw new UserError(
    `${replica.name} loaded ${model.name}, but not what was published (its configuration has ` +
      `${DIGEST_PARAMETER} ${digest ?? 'not set'}, the published one ${model.digest})`,
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
    // A model of Python comes with the place in Triton's own files where it failed, which helps nobody.
    const message = (cause as Error).message.split(/\n+At:/)[0]?.trim() ?? '';
    throw new UserError(`${replica.name} could not load ${model.name}: ${message}`, {
      hint: /explicit/i.test(message)
        ? 'start that server with --model-control-mode=explicit'
        : /failed to poll/.test(message)
          ? ELSEWHERE
          : `mend ${model.name} ${model.served.join(' ')}, under the same version number if you like, and run it again`,
      cause,
    });
  }
}

/** The answer 200 to a load alone proves nothing, so the repository index is looked at. */
async function waitUntilReady(
  client: TritonHttpClient,
  replica: Replica,
  model: ServedModel,
  { signal, deadline }: RolloutOptions & { deadline: number },
): Promise<void> {
  const loaded = Date.now();
  for (;;) {
    signal?.throwIfAborted();
    const states = statesOf(await client.repositoryIndex(), model);
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
        elsewhere ? { hint: ELSEWHERE } : {},
      );
    }
    await sleep(POLL_MS);
  }
}

async function unload(
  client: TritonHttpClient,
  replica: Replica,
  name: string,
  { loadTimeoutMs: timeoutMs, signal }: RolloutOptions,
): Promise<void> {
  try {
    await client.unloadModel(name);
    const deadline = Date.now() + timeoutMs;
    const inService = ['READY', 'UNLOADING', 'LOADING'];
    while ((await client.repositoryIndex()).some((entry) => entry.name === name && inService.includes(entry.state))) {
      signal?.throwIfAborted();
      if (Date.now() > deadline) throw new UserError(`it is still there after ${timeoutMs / 1000} s`);
      await sleep(POLL_MS);
    }
  } catch (cause) {
    signal?.throwIfAborted();
    throw new UserError(`${replica.name} could not unload ${name}: ${(cause as Error).message}`, { cause });
  }
}

/** What a model version looks like on a replica: READY, LOADING, UNLOADING, UNAVAILABLE, or absent. */
export interface ServedVersion {
  model: string;
  version: number;
  state: string;
  reason: string;
}

/** State of each wanted version of `model` in a repository index. */
export function statesOf(index: readonly ModelIndexEntry[], model: ServedModel): ServedVersion[] {
  return model.served.map((version) => {
    const entry = index.find(({ name, version: v }) => name === model.name && v === String(version));
    return { model: model.name, version, state: entry?.state ?? 'absent', reason: entry?.reason ?? '' };
  });
}
