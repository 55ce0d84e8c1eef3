import { setTimeout as sleep } from 'node:timers/promises';
import type { ReplicaSource } from '../cluster/source';
import { PartialFailureError, UserError } from '../core/errors';
import { readRepository } from '../model';
import type { ApplyOptions } from '../publish/apply/options';
import { change } from '../publish/change';
import { AgentClient } from '../publish/trial/agent-client';
import { getAgents } from '../publish/trial/mode';
import { RetainedReleases } from '../publish/trial/snapshot';
import type { RepositoryLocation } from '../release/location';
import type { S3Store } from '../s3/store';
import type { Pod } from './pod';
import { LOCK_TIMEOUT_MS, publishSelected } from './publish-selected';
import type { LocalModel, StackOptions } from './stack';
import { localReplica } from './state';
import { failedBecause, withDependents } from './valid-models';

/** The repository of stacks with an agent. It has versions, which that of other stacks lacks. */
export const AGENT_LOCATION: RepositoryLocation = { bucket: 'local-agent', prefix: 'models' };

/** Time for the agent to return to the release before, if the start fails. The next start does that too. */
const UNDO_MS = 5000;

/** How a release reaches the server, and the server. */
export interface AgentServing {
  pod: Pod;
  replicas: ReplicaSource;
  through: Pick<ApplyOptions, 'agents' | 'commitStore'>;
  models: LocalModel[];
}

/** @param stores of the same bucket; each request of `commitStore` ends within ten seconds */
export async function serveThroughAgent(
  stores: { store: S3Store; commitStore: S3Store },
  names: readonly string[],
  options: StackOptions,
  start: (isFresh: boolean) => Promise<Pod>,
): Promise<AgentServing> {
  const { repository, noAsk, loadTimeoutMs, progress, timings, defer } = options;
  const bucket = { ...stores, location: AGENT_LOCATION };
  await stores.store.enableVersioning();
  const { current } = await RetainedReleases.read(bucket);
  const held = Object.keys(current?.models ?? {});
  // Otherwise the agent would first load models that were not selected.
  const isFresh = current === undefined || held.some((name) => !names.includes(name));
  if (isFresh) await commitNothing(bucket, loadTimeoutMs);
  const pod = await timings.measure('Triton and agent', () =>
    progress.run('tritonserver and its release agent', () => start(isFresh)),
  );
  const replicas = replicasOf(pod);
  const which = isFresh ? 'an empty release' : 'the release of the earlier run';
  await timings.measure('release at the start', () =>
    progress.run(`the agent has Triton serve ${which}`, async () => {
      if (!(await servesRelease(pod))) await commitNothing(bucket, loadTimeoutMs);
    }),
  );
  const through = {
    agents: { agents: getAgents(replicas), migrate: false, plain: [] },
    commitStore: stores.commitStore,
  };
  const selected = {
    ...bucket,
    ...{ repository, loadTimeoutMs, names, held, progress, defer },
    undoMs: UNDO_MS,
    title: 'publish through the release agent',
  };
  const { models, release } = await timings
    .measure('publish', () =>
      publishSelected(selected, (step) => ({
        replicas,
        ...through,
        noAsk,
        trials: { endMs: UNDO_MS },
        onStage: (text) => step.update(text),
      })),
    )
    .catch(async (error: unknown) => {
      throw error instanceof UserError ? await explainRefusal(error, names, repository) : error;
    });
  return { pod, replicas, through, models: models.map((model) => ({ ...model, ...release?.models[model.name] })) };
}

/**
 * Makes a release without models the current one. An agent tries a release only if it serves another one, to which it can
 * return; so this is the first release of a bucket, and replaces one that Triton no longer loads.
 */
async function commitNothing(
  bucket: Pick<ApplyOptions, 'store' | 'commitStore' | 'location'>,
  loadTimeoutMs: number,
): Promise<void> {
  await change(
    (release) =>
      Promise.resolve({
        ...{ models: [], remove: Object.keys(release?.models ?? {}), archiveRemoved: false, prune: false },
        origin: 'npm run local, without models',
      }),
    {
      ...bucket,
      agents: { agents: undefined, migrate: false, plain: [] },
      replicas: undefined,
      untried: true,
      loadTimeoutMs,
      lockTimeoutMs: LOCK_TIMEOUT_MS,
    },
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

/** @returns false if the agent cannot have Triton serve the current release */
async function servesRelease({ triton: { httpUrl: name, agentUrl: url } }: Pod): Promise<boolean> {
  const client = new AgentClient({ name, uid: name, url });
  for (;;) {
    const { release, problem } = await client.getState();
    if (release !== null) return true;
    if (problem !== null) return false;
    await sleep(POLL_MS);
  }
}

/** Forms of the reasons with which an agent refuses a release. */
const REASONS = [
  /Triton (?:cannot load|does not serve|did not load) ([\w.-]+?)(?::? |$)/,
  /Triton (?:ended while it loaded|no longer serves) ([\w.-]+)/,
  /: ([\w.-]+) version \d+ (?:did not answer|gives a wrong answer|contradicts|failed on)/,
];

/** The model that a refusal names; undefined if it is about no model of `names`. */
export function refusedModel(message: string, names: readonly string[]): string | undefined {
  const [line = ''] = message.split('\n');
  const found = REASONS.map((reason) => reason.exec(line)?.[1]?.replace(/:$/, ''));
  return found.find((name) => name !== undefined && names.includes(name));
}

/** Adds the flag that leaves the refused model out, with the ensembles that need it. */
async function explainRefusal(error: UserError, names: readonly string[], repository: string): Promise<UserError> {
  const model = refusedModel(error.message, names);
  if (model === undefined) return error;
  // Triton may still load the model, and ends with this command.
  const { message, hint: advice } =
    error instanceof PartialFailureError && error.cause instanceof UserError ? error.cause : error;
  const { models } = await readRepository(repository, { models: names, artifacts: false });
  const without = withDependents([failedBecause(model, error)], models).map(({ name }) => name);
  const hint = `a release is served as a whole: fix ${model}, or leave it out with --exclude ${without.join(',')}`;
  return new UserError(message, { hint: advice === undefined ? hint : `${advice}\n  -> ${hint}`, cause: error });
}
