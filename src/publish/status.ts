import { UserError } from '../core/errors';
import { measureAnswer, type Difference, type GoldenRequest, type Mismatch } from '../model/golden';
import { replicaClient, type Replica, type ReplicaSource } from '../cluster/source';
import { FORMAT } from '../release/format';
import type { S3Store } from '../s3/store';
import { withoutFrames } from '../triton/load-failure';
import type { RepositoryLocation } from '../release/location';
import { askModel, WrongAnswerError } from '../release/ask';
import { readRequests, storedGolden } from './release/golden-object';
import { findDrift, readSnapshot } from './plan/snapshot';
import type { Release, ReleasedModel } from './release/release';
import { readFormat } from './trial/mode';
import { agentStatus, type ReportedState } from './trial/status';
import { servedModel, withFailedSteps } from './apply/served';
import { loadedDigest, readIndex, getStates, type ServedModel, type ServedVersion } from './apply/rollout';

/** One version on one replica, compared with the release. */
export interface ReplicaVersion extends ServedVersion {
  /** `as released`, `other configuration`, `missing`, `not in the release`, or the reason why it is not served. */
  verdict: string;
  ok: boolean;
}

/** How a model on a replica answered its requests. */
export interface ModelAnswer {
  model: string;
  ok: boolean;
  /** `answered 3 golden requests`, or the problem. */
  result: string;
  /** Set if values were compared. */
  mismatch?: Mismatch;
  /** With `differences`: one entry for each tensor of its golden requests. */
  differences?: Difference[];
}

export interface ReplicaStatus {
  replica: string;
  /** Why the state of the replica is unknown. */
  problem?: string;
  hint?: string;
  versions: ReplicaVersion[];
  /** What its agent reports, if it has one. */
  agent?: ReportedState;
  /** With `ask`: one entry for each model that the replica serves as released. */
  answers?: ModelAnswer[];
}

export interface RepositoryStatus {
  release: Release | undefined;
  /** The publisher that holds the lock. */
  publishing: string | undefined;
  /** Models that a killed publisher had begun to activate. */
  unfinished: string[];
  /** Objects that differ from the release: missing, or with other bytes. */
  drift: string[];
  replicas: ReplicaStatus[];
}

/** Compares what each replica serves with the repository. Writes nothing. */
export async function repositoryStatus(
  store: S3Store,
  location: RepositoryLocation,
  source: ReplicaSource | undefined,
  { ask = false, differences = false }: { ask?: boolean; differences?: boolean } = {},
): Promise<RepositoryStatus> {
  const isForAgents = (await readFormat(store, location)) === FORMAT;
  const status = isForAgents ? await agentStatus(store, location, source) : await directStatus(store, location, source);
  if (ask || differences) {
    const models = status.release?.models ?? {};
    const golden = goldenReader(store, location, models);
    const found = (await source?.list()) ?? [];
    // One replica after the other, because requests to all at once would slow down clients.
    for (const one of status.replicas) {
      const replica = found.find(({ name }) => name === one.replica);
      if (replica !== undefined)
        one.answers = await askReplica(replica, one, Object.entries(models), golden, differences);
    }
  }
  return status;
}

async function directStatus(
  store: S3Store,
  location: RepositoryLocation,
  source: ReplicaSource | undefined,
): Promise<RepositoryStatus> {
  const snapshot = await readSnapshot(store, location);
  const { head, lock } = snapshot;
  const released = Object.entries(head?.release.models ?? {});
  const models = released.map(([name, model]) => servedModel(name, model));
  const found = (await source?.list()) ?? [];
  const replicas = await Promise.all(found.map((replica) => replicaStatus(replica, models)));
  return {
    release: head?.release,
    publishing: lock.heldBy,
    unfinished: lock.heldBy === undefined ? lock.unfinished.switching : [],
    drift: await findDrift(snapshot, store, location),
    replicas,
  };
}

/** Whether the repository and all replicas match the release. */
export function isAsReleased(status: RepositoryStatus): boolean {
  return (
    status.drift.length === 0 &&
    status.unfinished.length === 0 &&
    status.replicas.every(({ problem, versions }) => problem === undefined && versions.every(({ ok }) => ok)) &&
    status.replicas.every(({ answers = [] }) => answers.every(({ ok }) => ok))
  );
}

type ReadGolden = (model: string) => Promise<GoldenRequest[]>;

/** Reads the golden requests of each model once, for all replicas. */
function goldenReader(
  store: S3Store,
  location: RepositoryLocation,
  models: Readonly<Record<string, ReleasedModel>>,
): ReadGolden {
  const read = new Map<string, Promise<GoldenRequest[]>>();
  return (model) => {
    const golden = models[model]?.golden;
    const reading =
      read.get(model) ?? readRequests(golden === undefined ? undefined : storedGolden(store, location, golden));
    read.set(model, reading);
    return reading;
  };
}

async function askReplica(
  replica: Replica,
  { problem, versions }: ReplicaStatus,
  released: readonly (readonly [string, ReleasedModel])[],
  golden: ReadGolden,
  measure: boolean,
): Promise<ModelAnswer[]> {
  if (problem !== undefined) return [];
  const client = replicaClient(replica);
  const answers: ModelAnswer[] = [];
  try {
    for (const [name, { served, asked }] of released) {
      const states = versions.filter(({ model }) => model === name);
      // A model that is not served as released is already reported as such.
      if (states.length === 0 || states.some(({ ok }) => !ok)) continue;
      const differences: Difference[] = [];
      const options = {
        replica: replica.name,
        zerosWereAnswered: asked === 'zeros',
        onAnswer: measure
          ? (...answer: Parameters<typeof measureAnswer>) => differences.push(...measureAnswer(...answer))
          : undefined,
      };
      const measured = { differences: measure ? differences : undefined };
      try {
        const { text, hint } = await askModel(client, { name, served }, await golden(name), options);
        answers.push({
          model: name,
          ok: true,
          result: `${text}${hint === undefined ? '' : ` -> ${hint}`}`,
          ...measured,
        });
      } catch (error) {
        const mismatch = error instanceof WrongAnswerError ? error.mismatch : undefined;
        const result = (error as Error).message;
        answers.push({ model: name, ok: false, result, mismatch, ...measured });
      }
    }
  } finally {
    client.close();
  }
  return answers;
}

async function replicaStatus(
  replica: Replica,
  models: readonly ReturnType<typeof servedModel>[],
): Promise<ReplicaStatus> {
  if (!replica.ready) return { replica: replica.name, problem: 'not ready', versions: [] };
  const client = replicaClient(replica);
  try {
    const index = await readIndex(client, replica);
    const versions: ReplicaVersion[] = [];
    for (const model of models) {
      const states = getStates(index, model);
      const served = states.filter(({ state }) => state === 'READY').map(({ version }) => version);
      const digest =
        served.length > 0 && model.digest !== '' ? await loadedDigest(client, { ...model, served }) : model.digest;
      for (const state of states) {
        const ok = state.state === 'READY' && digest === model.digest;
        const verdict = ok ? 'as released' : state.state === 'READY' ? 'other configuration' : 'missing';
        versions.push({ ...state, ok, verdict });
      }
    }
    const known = new Set(versions.map(({ model, version }) => `${model}/${version}`));
    for (const { name, version, state, reason } of index) {
      if (state !== 'READY' || known.has(`${name}/${version}`)) continue;
      versions.push({ model: name, version: Number(version), state, reason, ok: false, verdict: 'not in the release' });
    }
    const explained = withFailedSteps(versions, models).map((version) =>
      version.verdict === 'missing' && version.reason !== ''
        ? { ...version, verdict: withoutFrames(version.model, version.reason) }
        : version,
    );
    explained.sort((a, b) => (a.model === b.model ? a.version - b.version : a.model < b.model ? -1 : 1));
    return { replica: replica.name, versions: explained };
  } catch (error) {
    const hint = error instanceof UserError ? error.hint : undefined;
    return { replica: replica.name, problem: (error as Error).message, hint, versions: [] };
  } finally {
    client.close();
  }
}

/** The state of each desired version on one server. */
export async function servedNow(
  server: { httpUrl: string; modelControlKey: string },
  models: readonly (ServedModel & { composedOf: readonly string[] })[],
): Promise<ServedVersion[]> {
  const { httpUrl: url, modelControlKey } = server;
  const replica = { name: url, url, ready: true, modelControlKey };
  const client = replicaClient(replica);
  try {
    const index = await readIndex(client, replica);
    return withFailedSteps(
      models.flatMap((model) => getStates(index, model)),
      models,
    );
  } finally {
    client.close();
  }
}
