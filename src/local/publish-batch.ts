import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../core/abort';
import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { replicaClient } from '../cluster/source';
import type { ServedVersion } from '../publish/apply/rollout';
import { change } from '../publish/change';
import type { ApplyOptions } from '../publish/apply/options';
import type { DesiredModel } from '../publish/plan/desired';
import { publish, type Published } from '../publish/publish';
import { servedNow } from '../publish/status';
import { TritonError } from '../triton/client';
import { explainLoadFailure } from '../triton/load-failure';
import { LoadLimit } from './load-limit';
import { withShortWarmUp } from './short-warm-up';
import type { LocalStack, StackOptions } from './stack';
import { failedBecause, failedWith, type FailedModel } from './valid-models';

/** Time to wait for a manual publish into the local bucket. */
export const LOCK_TIMEOUT_MS = 120_000;

/** Number of models that tritonserver loads concurrently (--model-load-thread-count). */
const AT_ONCE = 4;

/** Time for one model to load while nothing waits for it. */
const LONGEST_LOAD_MS = 600_000;

/** Time for Triton to report a load as failed after its processes were killed. */
const ANSWER_MS = 30_000;

/** Time for the end of the server to be reported after its connections were lost. */
const END_IS_KNOWN_MS = 2000;

export interface BatchOptions {
  repository: string;
  /** Limit for the load of one model; ignored until `isWaitedFor` returns true. */
  limitMs: number;
  isWaitedFor: () => boolean;
  /** Follows `the load was stopped after 30 s`. */
  limitReason: string;
  noAsk: boolean;
  signal: AbortSignal;
  /** @throws UserError if the model does not answer, or answers wrongly */
  ask: (model: string) => Promise<void>;
  /** Called with what happens to a model, or to all of them. */
  onStage: (text: string, model?: string) => void;
  /** Called when a model is READY. */
  onLoaded: (model: DesiredModel, versions: readonly ServedVersion[], milliseconds: number) => void;
}

/** The result of a publish: models that failed are restored to the version before, or are not served. */
export interface PublishedBatch extends Published {
  failed: FailedModel[];
}

/**
 * Publishes models to the local bucket with the code of `npm run sync-models`, and loads and asks them. Only this machine
 * depends on the bucket, so versions whose files changed are replaced. Of a model that fails, the previous version is
 * served, if there is one. With an agent, a release is served as a whole, so one failed model is an error.
 */
export async function publishBatch(
  stack: LocalStack,
  names: readonly string[],
  options: BatchOptions,
): Promise<PublishedBatch> {
  const { signal, onStage, ask, noAsk, limitMs } = options;
  const failed: FailedModel[] = [];
  const direct: Partial<ApplyOptions> = {
    activate: async (models) => {
      const named = models.filter(({ name }) => names.includes(name));
      failed.push(...(await loadAndAsk(stack, named, options)));
      return failed.map(({ name }) => name);
    },
    // The models were asked when they were loaded; here, other models of the release are asked, which depend on them.
    ask: async (_, __, { name }, isNew) => {
      if (isNew && !noAsk && !names.includes(name)) await ask(name);
    },
  };
  const { replicas } = stack;
  const published = await publish({
    ...{ repository: options.repository, store: stack.store, location: stack.location, noAsk, signal },
    models: names,
    // What is undone after an interrupt need not be loaded, because Triton stops.
    replicas: { ...replicas, list: () => (signal.aborted ? Promise.resolve([]) : replicas.list()) },
    replacePublished: true,
    adaptToThisMachine: withShortWarmUp,
    loadTimeoutMs: Math.max(limitMs, LONGEST_LOAD_MS),
    lockTimeoutMs: LOCK_TIMEOUT_MS,
    onStage: (text) => onStage(text),
    ...(stack.through ?? direct),
  });
  return { ...published, failed };
}

/** @returns the models that cannot be loaded or that answer wrongly, and the ensembles that need them */
async function loadAndAsk(
  stack: LocalStack,
  models: readonly DesiredModel[],
  options: BatchOptions,
): Promise<FailedModel[]> {
  const failed: FailedModel[] = [];
  const again: DesiredModel[] = [];
  const attempt = async ({ name }: DesiredModel, work: () => Promise<void>): Promise<void> => {
    try {
      await abortable(work(), options.signal);
    } catch (error) {
      options.signal.throwIfAborted();
      if (!(error instanceof UserError)) throw error;
      failed.push(failedBecause(name, error));
    }
  };
  const ask = async (model: DesiredModel): Promise<void> => {
    if (options.noAsk) return;
    options.onStage('ask', model.name);
    await options.ask(model.name);
  };
  const load = async (model: DesiredModel): Promise<void> => {
    options.onStage('load', model.name);
    const started = Date.now();
    const versions = await loadModel(stack, model, options);
    options.onLoaded(model, versions, Date.now() - started);
  };
  const bytes = ({ objects }: DesiredModel): number => objects.reduce((sum, object) => sum + object.bytes, 0);
  await forEachLimited(
    // Small models first, because the user waits for a first answer.
    models.filter(({ composedOf }) => composedOf.length === 0).sort((a, b) => bytes(a) - bytes(b)),
    AT_ONCE,
    (model) =>
      attempt(model, async () => {
        await load(model);
        // A Python model may call a model that is not loaded yet.
        await ask(model).catch(() => again.push(model));
      }),
  );
  for (const model of again) await attempt(model, () => ask(model));
  for (const model of models.filter(({ composedOf }) => composedOf.length > 0)) {
    // Triton would load the failed model again.
    const needs = model.composedOf.find((step) => failed.some(({ name }) => name === step));
    if (needs !== undefined) failed.push(failedWith(model.name, needs));
    else {
      await attempt(model, async () => {
        await load(model);
        await ask(model);
      });
    }
  }
  // Each step before its ensembles.
  return models.flatMap(({ name }) => failed.filter((one) => one.name === name));
}

/** @throws UserError if Triton does not serve the model */
async function loadModel({ triton }: LocalStack, model: DesiredModel, options: BatchOptions): Promise<ServedVersion[]> {
  const client = replicaClient(triton.control);
  const limit = new LoadLimit(triton.pid, options.limitMs, options.isWaitedFor);
  limit.begin(model.name);
  const fail = (reason: string, hint?: string): UserError =>
    new UserError(`could not load ${model.name}: ${reason}`, {
      hint: `${hint === undefined ? '' : `${hint}\n  -> `}read Triton's log: ${triton.logFile}`,
    });
  try {
    await client.loadModel(model.name, { timeoutMs: Math.max(options.limitMs, LONGEST_LOAD_MS) + ANSWER_MS });
    const versions = await servedNow(triton, [model]);
    const unserved = versions.find(({ state }) => state !== 'READY');
    if (unserved !== undefined)
      throw fail(`version ${unserved.version} is ${unserved.state} ${unserved.reason}`.trim());
    return versions;
  } catch (error) {
    if (limit.ended) throw fail(`the load was stopped after ${options.limitMs / 1000} s${options.limitReason}`);
    if (!(error instanceof TritonError)) throw error;
    // The end of the server explains more than a lost connection; it aborts the signal.
    if (!error.answered) await sleep(END_IS_KNOWN_MS);
    const reason = error.message.replace(/^load failed for model '[^']*': version \d+ is at UNAVAILABLE state: /, '');
    const { message, hint } = explainLoadFailure(model.name, reason);
    throw fail(message, hint);
  } finally {
    limit.stop();
    client.close();
  }
}

/** Removes models from the release that nothing serves. A rollback restores them. */
export async function removeFromRelease(
  names: readonly string[],
  bucket: Pick<ApplyOptions, 'store' | 'location'>,
  { loadTimeoutMs, progress }: Pick<StackOptions, 'loadTimeoutMs' | 'progress'>,
): Promise<void> {
  if (names.length === 0) return;
  progress.line(describeRemoved(names));
  const target = { models: [], remove: [...names], archiveRemoved: true, prune: false, origin: 'npm run local' };
  await change(() => Promise.resolve(target), {
    ...{ ...bucket, replicas: undefined, loadTimeoutMs, lockTimeoutMs: LOCK_TIMEOUT_MS },
  });
}

export const describeRemoved = (names: readonly string[]): string =>
  `     ${names.join(', ')} of an earlier run are removed from the local release; a rollback restores them`;
