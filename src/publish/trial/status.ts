import type { ReplicaSource } from '../../cluster/source';
import type { AgentState } from '../../release/agent-api';
import type { RepositoryLocation } from '../../release/location';
import type { S3Store } from '../../s3/store';
import type { ReplicaStatus, ReplicaVersion, RepositoryStatus } from '../status';
import type { Release } from '../release/release';
import { AgentClient } from './agent-client';
import { RetainedReleases } from './snapshot';

/** What the agent of a replica reports, for people and scripts. */
export type ReportedState = Pick<
  AgentState,
  'ready' | 'release' | 'home' | 'trial' | 'problem' | 'models' | 'bytesOnDisk' | 'startMs'
>;

/**
 * What each replica serves, as its agent reports it. Nothing is read from the servers, because an agent reports a release
 * only while its server serves all of it.
 */
export async function agentStatus(
  store: S3Store,
  location: RepositoryLocation,
  source: ReplicaSource | undefined,
): Promise<RepositoryStatus> {
  const { current } = await RetainedReleases.read({ store, location });
  const found = (await source?.list()) ?? [];
  const replicas = await Promise.all(
    found.map(async ({ name, uid = name, agentUrl: url }): Promise<ReplicaStatus> => {
      if (url === undefined) return { replica: name, problem: 'has no agent', versions: [] };
      try {
        return describeReplica(name, await new AgentClient({ name, uid, url }).getState(), current);
      } catch (error) {
        return { replica: name, problem: (error as Error).message, versions: [] };
      }
    }),
  );
  return { release: current, publishing: undefined, unfinished: [], drift: [], replicas };
}

function describeReplica(replica: string, state: AgentState, current: Release | undefined): ReplicaStatus {
  const { ready, release, home, trial, models, bytesOnDisk, startMs } = state;
  const isCurrent = release !== null && release === (current?.id ?? 'none');
  const versions = models.flatMap(({ name, versions: numbers }) =>
    numbers.map((version): ReplicaVersion => {
      const verdict = isCurrent ? 'as released' : release === null ? 'not all of a release' : `of release ${release}`;
      return { model: name, version, state: ready ? 'READY' : 'NOT READY', reason: '', ok: isCurrent, verdict };
    }),
  );
  return {
    replica,
    problem: isCurrent ? undefined : (state.problem ?? `serves ${release ?? 'no release'}`),
    versions,
    agent: { ready, release, home, trial, problem: state.problem, models, bytesOnDisk, startMs },
  };
}
