import type { ReplicaSource } from '../../cluster/source';
import type { AgentState } from '../../release/agent-api';
import { archiveKey, type RepositoryLocation } from '../../release/location';
import type { S3Store } from '../../s3/store';
import type { ReplicaStatus, ReplicaVersion, RepositoryStatus } from '../status';
import type { Release } from '../release/release';
import { AgentClient } from './agent-client';
import { requireNoReleases } from './repair-head';
import { RetainedReleases, type AgentRelease } from './snapshot';

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
  if (current === undefined) await requireNoReleases(store, location);
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
  return {
    release: current,
    publishing: undefined,
    unfinished: [],
    drift: await findMissing(current, store, location),
    replicas,
  };
}

/** Files of the release that are gone from the bucket, so that a pod that starts could not fetch them. */
async function findMissing(
  current: AgentRelease | undefined,
  store: S3Store,
  location: RepositoryLocation,
): Promise<string[]> {
  const keys = Object.values(current?.manifest.models ?? {}).flatMap(({ files }) => files.map(({ key }) => key));
  const prefixes = [`${location.prefix}/`, archiveKey(location, '')].filter((prefix) =>
    keys.some((key) => key.startsWith(prefix)),
  );
  const listed = new Set(
    (await Promise.all(prefixes.map((prefix) => store.list(prefix)))).flat().map(({ key }) => key),
  );
  return keys.filter((key) => !listed.has(key)).map((key) => `${key} is missing`);
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
