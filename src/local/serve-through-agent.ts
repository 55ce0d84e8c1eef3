import { setTimeout as sleep } from 'node:timers/promises';
import type { ReplicaSource } from '../cluster/source';
import type { ApplyOptions } from '../publish/apply/options';
import { change } from '../publish/change';
import { AgentClient } from '../publish/trial/agent-client';
import { getAgents } from '../publish/trial/mode';
import { RetainedReleases } from '../publish/trial/snapshot';
import type { RepositoryLocation } from '../release/location';
import type { S3Store } from '../s3/store';
import type { Progress } from '../cli/progress';
import { startPod, type Pod, type PodOptions } from './pod';
import { describeRemoved, LOCK_TIMEOUT_MS } from './publish-batch';
import type { LocalStack } from './stack';
import { localReplica } from './state';

/** The repository of stacks with an agent. It has versions, which that of other stacks lacks. */
export const AGENT_LOCATION: RepositoryLocation = { bucket: 'local-agent', prefix: 'models' };

/** Time for the agent to return to the release before, if the start fails. The next start does that too. */
const UNDO_MS = 5000;

/**
 * Starts a Triton and a release agent, which serves the release of the earlier run, or an empty one.
 * @param stores of the same bucket; each request of `commitStore` ends within ten seconds
 * @param models that will be served
 */
export async function startAgent(
  stores: { store: S3Store; commitStore: S3Store },
  options: Omit<PodOptions, 'isFresh'>,
  models: readonly string[],
  progress: Progress,
): Promise<Required<Pick<LocalStack, 'replicas' | 'through' | 'agent'>> & Pick<Pod, 'triton'>> {
  const bucket = { ...stores, location: AGENT_LOCATION };
  await stores.store.enableVersioning();
  const { current } = await RetainedReleases.read(bucket);
  const others = Object.keys(current?.models ?? {}).filter((name) => !models.includes(name));
  // Otherwise the agent would first load models that were not selected.
  const isFresh = current === undefined || others.length > 0;
  if (others.length > 0) progress.line(describeRemoved(others));
  if (isFresh) await commitNothing(bucket, options.loadTimeoutMs);
  const pod = await startPod({ ...options, isFresh });
  if (!(await servesRelease(pod))) await commitNothing(bucket, options.loadTimeoutMs);
  const replicas = replicasOf(pod);
  const through = {
    agents: { agents: getAgents(replicas), migrate: false, plain: [] },
    commitStore: stores.commitStore,
    trials: { endMs: UNDO_MS },
  };
  return { ...pod, replicas, through };
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
