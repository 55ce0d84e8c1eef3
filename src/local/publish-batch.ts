import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../core/abort';
import { UserError } from '../core/errors';
import type { RepositoryModel } from '../model';
import { desiredModels } from '../publish/desired';
import { makePlan } from '../publish/plan';
import { publish, type Published } from '../publish/publish';
import { Releases } from '../publish/releases';
import type { Manifest } from '../release/manifest';
import { TritonHttpClient } from '../triton/http';
import { LoadLimit } from './load-limit';
import { adaptModels, adaptToThisMachine } from './adapt-model';
import type { LocalStack } from './stack';

/** Time for the replica to return to the release before, while something waits for it, and otherwise. */
const UNDO_MS = { waitedFor: 5000, later: 30_000 };
const POLL_MS = 100;

/** Time for one model to load while nothing waits for it. */
const LONGEST_LOAD_MS = 600_000;

export interface BatchOptions {
  repository: string;
  /** Limit for a model to load and to answer; ignored until `isWaitedFor` returns true. */
  limitMs: number;
  isWaitedFor: () => boolean;
  /** Follows `was stopped after 30 s`. */
  limitReason: string;
  noAsk: boolean;
  signal: AbortSignal;
  onStage: (text: string) => void;
}

/**
 * Publishes models to the local bucket with the code of `npm run sync-models`: the agent loads and asks them before they
 * count. Only this machine depends on the bucket, so versions whose files changed are replaced.
 * @throws UserError if the agent refuses them; it then serves what it served before
 */
export async function publishBatch(
  { triton, agent, replicas: agents, store, location, modelsFolder }: LocalStack,
  names: readonly string[],
  options: BatchOptions,
): Promise<Published> {
  const { repository, signal, noAsk, limitMs, isWaitedFor, limitReason, onStage } = options;
  const client = new TritonHttpClient(triton.httpUrl);
  const limit = new LoadLimit({
    ...{ folder: modelsFolder, models: names, limitMs, isWaitedFor },
    isReady: (model) => client.modelReady(model).catch(() => false),
    getAsked: async () => (await agent.client.getState()).trial?.asking,
  });
  try {
    return await publish({
      ...{ repository, store, location, agents, noAsk, signal, onStage },
      models: names,
      replacePublished: true,
      adaptToThisMachine: adaptModels,
      loadTimeoutMs: Math.max(limitMs, LONGEST_LOAD_MS),
      waitMs: 0,
      trials: { endMs: isWaitedFor() ? UNDO_MS.waitedFor : UNDO_MS.later, pollMs: POLL_MS },
    });
  } catch (error) {
    if (signal.aborted || !(error instanceof UserError) || error.problems.length > 0) throw error;
    const [stopped] = limit.stopped;
    if (stopped !== undefined) {
      throw new UserError(`${stopped} took too long and was stopped after ${limitMs / 1000} s${limitReason}`, {
        hint: `read Triton's log: ${triton.logFile}`,
      });
    }
    // There is only one replica.
    const message = error.message.replace(/^\S+ does not serve the release: /, '');
    const hints = [error.hint, ANSWER.test(message) ? undefined : `read Triton's log: ${triton.logFile}`];
    throw new UserError(message, { hint: hints.filter((hint) => hint !== undefined).join('\n  -> '), cause: error });
  } finally {
    limit.stop();
    client.close();
  }
}

/** The current release, and those of the models that it holds with the same files, configuration and golden requests. */
export async function readReleased(
  { store, location }: Pick<LocalStack, 'store' | 'location'>,
  models: readonly RepositoryModel[],
): Promise<{ release: Manifest | undefined; unchanged: string[] }> {
  const releases = await Releases.read({ store, location });
  const { current } = releases;
  if (current === undefined || models.length === 0) return { release: current, unchanged: [] };
  const desired = await desiredModels(models.map(adaptToThisMachine));
  const plan = makePlan(desired, releases, { remove: [], replacePublished: true }, await releases.listFiles());
  return {
    release: current,
    unchanged: plan.models.filter(({ isChanged }) => !isChanged).map(({ model }) => model.name),
  };
}

/**
 * Returns when Triton serves a model of the release of the earlier run.
 * @returns false if the agent cannot have Triton serve that release
 */
export async function untilReady(
  { triton, home }: LocalStack,
  { name, served }: RepositoryModel,
  signal: AbortSignal,
): Promise<boolean> {
  const client = new TritonHttpClient(triton.httpUrl);
  let isHome: boolean | undefined;
  home.then((loaded) => (isHome = loaded)).catch(() => (isHome = false));
  try {
    for (;;) {
      const isLast = isHome !== undefined;
      const ready = await Promise.all(served.map((version) => client.modelReady(name, version).catch(() => false)));
      if (ready.every(Boolean)) return true;
      if (isLast) return false;
      await abortable(sleep(POLL_MS), signal);
    }
  } finally {
    client.close();
  }
}

/** A refusal because of an answer. */
export const ANSWER = /(?:^|: )([\w.-]+) version \d+ (?:did not answer|gives|contradicts|failed on|fails on|mixes)/;

/** Forms of the reasons with which an agent refuses a release. */
const REASONS = [
  /Triton (?:cannot load|does not serve|did not load) ([\w.-]+?)(?::? |$)/,
  /Triton (?:ended while it loaded|no longer serves) ([\w.-]+)/,
  /^([\w.-]+) took too long/,
  ANSWER,
];

/** The model that a refusal names; undefined if it is about no model of `names`. */
export function refusedModel(message: string, names: readonly string[]): string | undefined {
  const [line = ''] = message.split('\n');
  const found = REASONS.map((reason) => reason.exec(line)?.[1]?.replace(/:$/, ''));
  return found.find((name) => name !== undefined && names.includes(name));
}
