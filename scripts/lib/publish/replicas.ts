import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../errors';
import { TritonHttpClient, type ModelIndexEntry } from '../triton/http';
import type { WantedModel } from './wanted';

const POLL_MS = 100;

/** What a model version looks like on a replica: READY, LOADING, UNLOADING, UNAVAILABLE, or absent. */
export interface ServedVersion {
  model: string;
  version: number;
  state: string;
  reason: string;
}

export interface LoadOptions {
  /** For each model, from the request to load it to READY. */
  timeoutMs: number;
  onReady?: (replica: string, model: string, milliseconds: number) => void;
}

/**
 * Gets one replica to serve what the repository says: loads each of `models` and waits until every version that its
 * config names is READY. The answer 200 to a load alone proves nothing, so the repository index is looked at.
 * @throws UserError with the server's own reason when a version does not become READY
 */
export async function loadOnReplica(url: string, models: readonly WantedModel[], options: LoadOptions): Promise<void> {
  await servedNow(url, models); // Says so when nothing answers there.
  const client = new TritonHttpClient(url);
  try {
    for (const model of models) {
      const started = Date.now();
      await load(client, url, model, options.timeoutMs);
      await waitUntilReady(client, url, model, started + options.timeoutMs);
      options.onReady?.(url, model.name, Date.now() - started);
    }
  } finally {
    client.close();
  }
}

/** State of each wanted version on one replica. */
export async function servedNow(url: string, models: readonly WantedModel[]): Promise<ServedVersion[]> {
  const client = new TritonHttpClient(url);
  try {
    const index = await client.repositoryIndex();
    return models.flatMap((model) => servedVersions(index, model));
  } catch (cause) {
    throw new UserError(`the replica at ${url} does not answer: ${(cause as Error).message}`, {
      hint: 'check --triton, and that the server runs with --model-control-mode=explicit',
      cause,
    });
  } finally {
    client.close();
  }
}

/** State of each wanted version of `model` in a repository index. */
export function servedVersions(index: readonly ModelIndexEntry[], model: WantedModel): ServedVersion[] {
  return model.served.map((version) => {
    const entry = index.find(({ name, version: v }) => name === model.name && v === String(version));
    return { model: model.name, version, state: entry?.state ?? 'absent', reason: entry?.reason ?? '' };
  });
}

async function load(client: TritonHttpClient, url: string, model: WantedModel, timeoutMs: number): Promise<void> {
  try {
    await client.loadModel(model.name, { timeoutMs });
  } catch (cause) {
    const message = (cause as Error).message;
    throw new UserError(`${url} could not load ${model.name}: ${message}`, {
      hint: /explicit/i.test(message)
        ? 'start that server with --model-control-mode=explicit'
        : `its other models, and the versions of ${model.name} it served before, go on being served`,
      cause,
    });
  }
}

async function waitUntilReady(
  client: TritonHttpClient,
  url: string,
  model: WantedModel,
  deadline: number,
): Promise<void> {
  for (;;) {
    const versions = servedVersions(await client.repositoryIndex(), model);
    const [first, ...others] = versions.filter(({ state }) => state !== 'READY');
    if (first === undefined) return;
    const worst = [first, ...others].find(({ state }) => state === 'UNAVAILABLE');
    if (worst !== undefined || Date.now() > deadline) {
      const { version, state, reason } = worst ?? first;
      throw new UserError(`${url}: ${model.name} version ${version} is ${state}${reason === '' ? '' : `: ${reason}`}`);
    }
    await sleep(POLL_MS);
  }
}
