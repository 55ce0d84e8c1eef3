import type { Replica, ReplicaSource } from './cluster/source';
import { measureAnswer, type Difference, type GoldenRequest, type Mismatch } from '../model/golden';
import type { AgentState } from '../release/agent-api';
import { askModel, readGoldenRequests, WrongAnswerError } from '../release/ask';
import { NO_RELEASE } from '../release/head';
import { filesPrefix } from '../release/location';
import { keysOf, type Manifest } from '../release/manifest';
import { TritonHttpClient } from '../triton/http';
import { AgentClient } from './agent-client';
import { Releases, type Bucket } from './releases';

/** How a model on a replica answered its requests. */
export interface ModelAnswer {
  model: string;
  ok: boolean;
  /** `answered 3 golden requests`, or the problem. */
  result: string;
  /** Set if values were compared. */
  mismatch?: Mismatch | undefined;
  /** With `differences`: one entry for each tensor of its golden requests. */
  differences?: Difference[] | undefined;
}

export interface ReplicaStatus {
  replica: string;
  /** Why the replica does not serve the release, or why its state is unknown. */
  problem?: string | undefined;
  /** Undefined if the agent does not answer. */
  agent?: AgentState;
  /** With `ask`: one entry for each model that the replica serves as released. */
  answers?: ModelAnswer[];
}

export interface RepositoryStatus {
  release: Manifest | undefined;
  /** Files of the release that are gone from the bucket, so that a pod that starts could not fetch them. */
  missing: string[];
  replicas: ReplicaStatus[];
}

/**
 * Compares what each replica serves with the current release, as its agent reports it: an agent reports a release only
 * while its server serves all of it. Writes nothing.
 */
export async function repositoryStatus(
  bucket: Bucket,
  source: ReplicaSource | undefined,
  { ask = false, differences = false }: { ask?: boolean; differences?: boolean } = {},
): Promise<RepositoryStatus> {
  const { current } = await Releases.read(bucket);
  const found = (await source?.list()) ?? [];
  const replicas = await Promise.all(found.map((replica) => readReplica(replica, current)));
  if ((ask || differences) && current !== undefined) {
    const readGolden = goldenReader(current, bucket);
    // One replica after the other, because requests to all at once would slow down clients.
    for (const [i, replica] of found.entries()) {
      const status = replicas[i] as ReplicaStatus;
      status.answers = await askReplica(replica, status, current, readGolden, differences);
    }
  }
  return { release: current, missing: await findMissing(current, bucket), replicas };
}

export const isAsReleased = ({ missing, replicas }: RepositoryStatus): boolean =>
  missing.length === 0 &&
  replicas.every(({ problem, answers = [] }) => problem === undefined && answers.every(({ ok }) => ok));

async function findMissing(current: Manifest | undefined, { store, location }: Bucket): Promise<string[]> {
  if (current === undefined) return [];
  const listed = new Set((await store.list(filesPrefix(location))).map(({ key }) => key));
  return keysOf(current).filter((key) => !listed.has(key));
}

async function readReplica(replica: Replica, current: Manifest | undefined): Promise<ReplicaStatus> {
  const { name } = replica;
  try {
    const agent = await new AgentClient(replica).getState();
    const { release, trial, problem } = agent;
    const ok = release !== null && release === (current?.id ?? NO_RELEASE);
    return { replica: name, problem: ok ? undefined : (problem ?? describeServed(release, trial)), agent };
  } catch (error) {
    return { replica: name, problem: (error as Error).message };
  }
}

const describeServed = (release: string | null, trial: AgentState['trial']): string =>
  trial === null
    ? `serves ${release ?? 'no release'}`
    : `tries release ${trial.release} of ${trial.by}: ${trial.note ?? trial.phase}`;

type ReadGolden = (model: string) => Promise<GoldenRequest[]>;

/** Reads the golden requests of each model once, for all replicas. */
function goldenReader({ models }: Manifest, { store }: Bucket): ReadGolden {
  const read = new Map<string, Promise<GoldenRequest[]>>();
  return (model) => {
    const reading = read.get(model) ?? readGoldenRequests(model, models[model]?.golden, store);
    read.set(model, reading);
    return reading;
  };
}

/** Asks the models of a replica that serves the release. A replica that does not is already reported as such. */
async function askReplica(
  replica: Replica,
  { problem }: ReplicaStatus,
  { models }: Manifest,
  readGolden: ReadGolden,
  measure: boolean,
): Promise<ModelAnswer[]> {
  if (problem !== undefined) return [];
  const client = new TritonHttpClient(replica.tritonUrl);
  const answers: ModelAnswer[] = [];
  try {
    for (const [name, { served }] of Object.entries(models)) {
      const differences: Difference[] = [];
      const options = {
        replica: replica.name,
        zerosWereAnswered: false,
        onAnswer: measure
          ? (...answer: Parameters<typeof measureAnswer>) => differences.push(...measureAnswer(...answer))
          : undefined,
      };
      const measured = { differences: measure ? differences : undefined };
      try {
        const { text, hint } = await askModel(client, { name, served }, await readGolden(name), options);
        const result = `${text}${hint === undefined ? '' : ` -> ${hint}`}`;
        answers.push({ model: name, ok: true, result, ...measured });
      } catch (error) {
        const mismatch = error instanceof WrongAnswerError ? error.mismatch : undefined;
        answers.push({ model: name, ok: false, result: (error as Error).message, mismatch, ...measured });
      }
    }
  } finally {
    client.close();
  }
  return answers;
}
