import { join } from 'node:path';
import type { Relay } from '../network/relay';
import { AgentReplica, type ReplicaPrograms } from './coldstart-replica';
import type { BenchRepository } from './coldstart-repository';

export const BUCKET = 'bench';

/** What a row of the benchmark needs. */
export interface Context {
  programs: ReplicaPrograms;
  s5cmd: string;
  python: string;
  directory: string;
  relay: Relay;
  /** Where replicas reach S3. */
  endpoint: string;
  /** Costs of S3 since the last call. */
  takeTraffic: () => Traffic;
  /** A new repository, which is written without the limit. */
  repository: (prefix: string) => BenchRepository;
  repetitions: number;
  reduction: number;
  onRun: (round: number, name: string) => void;
}

/** What S3 has answered. */
export interface Traffic {
  /** With headers. */
  bytes: number;
  requests: number;
}

/** A replica with an agent, not started, for the repository under `prefix`. */
export function newReplica({ directory, programs, endpoint }: Context, prefix: string, name: string): AgentReplica {
  return new AgentReplica(programs, join(directory, name), { endpoint, repository: `s3://${BUCKET}/${prefix}` });
}
