import type { Asked } from './ask';

/** The control API of an agent, on loopback of its pod: what a publisher sends, and what it gets. */

export const AGENT_API = 1;

/** Name of the agent's container. A publisher recognizes by it that a pod has an agent. */
export const AGENT_CONTAINER = 'agent';

/** `control` listens on loopback of the pod, for publishers; `read` on every address, for state and metrics. */
export const AGENT_PORTS = { control: 8090, read: 8091 } as const;

/** A release that a pod is asked to serve although head.json does not name it. */
export interface TrialRequest {
  /** Random, for this pod and this request. */
  id: string;
  release: string;
  manifestSha256: string;
  /** Generation of head.json that the release is built on. */
  base: number;
  /** Its SHA-256 is `trialKey` of the manifest. So only who could write the manifest can try it. */
  secret: string;
  /** The trial ends after this time, unless it is renewed. */
  ttlSeconds: number;
  /** For messages: `ann@laptop`. */
  by: string;
  /** From the state that the publisher decided on. */
  stateTag: string;
  /** Whether the agent sends each model its golden requests before it reports the release as served. Default: true. */
  ask?: boolean;
  /** Whether the pod leaves the Service until its models were asked, because other replicas get requests. Default: false. */
  outside?: boolean;
  /** Whether no other replica gets requests: then the pod does not wait before a switch that it cannot answer in. */
  alone?: boolean;
}

/** Begins no trial: it extends one that runs. */
export interface TrialRenewal {
  secret: string;
  ttlSeconds: number;
  /** Whether head.json names the release now: the agent reads it at once. */
  committed?: boolean;
  /** What the publisher does meanwhile, for `npm run status`. */
  note?: string | undefined;
}

export type TrialPhase = 'downloading' | 'loading' | 'asking' | 'served';

/** Where the instances of a model run. */
export type ModelDevice = 'CPU' | 'GPU' | 'CPU and GPU' | 'chosen by the model';

/** How a trial ended: its release became head, or the pod went back to what it served before. */
export type TrialOutcome = 'released' | 'overtaken' | 'refused' | 'ended' | 'expired';

export interface AgentState {
  api: typeof AGENT_API;
  /** Newest format of manifests that this agent reads. */
  format: number;
  /** `s3://BUCKET/PREFIX`. Agents of earlier versions do not say it. */
  repository?: string;
  /** What the pod runs compiled models with, such as `26.11 8.9`. Undefined: not known. */
  target?: string | undefined;
  /** Changes whenever a trial that was asked for before must not begin any more. */
  stateTag: string;
  /** Whether the pod should get requests, and Triton answers. */
  ready: boolean;
  /** Id of the release that the pod serves; null while it serves none, or parts of two. */
  release: string | null;
  /** The last head.json that was read. */
  head: { generation: number; release: string } | null;
  /** The release that the pod returns to after a trial. */
  home: string | null;
  /** `leftSeconds` is not rounded, because publishers compare it with the time that a commit takes. */
  trial: {
    id: string;
    release: string;
    by: string;
    leftSeconds: number;
    phase: TrialPhase;
    asking?: string | undefined;
    note?: string | undefined;
  } | null;
  lastTrial: { id: string; release: string; outcome: TrialOutcome; reason?: string; hint?: string } | null;
  /** Why the pod does not serve what it should. */
  problem: string | null;
  /** Age of the last answer of Triton, on which the state is based. */
  tritonAnsweredSecondsAgo: number;
  models: ServedModelState[];
  /** Bytes of the files of releases on this pod's disk. */
  bytesOnDisk: number;
  /** Phase of the start -> its time in ms. */
  startMs: Partial<Record<StartPhase, number>>;
}

/** The state with Triton's own counters. */
export interface AgentStatistics extends AgentState {
  statistics: ModelCounts[];
}

/** What a version of a model has answered since it was loaded. */
export interface ModelCounts {
  name: string;
  version: string;
  answered: number;
  failed: number;
  /** Of all that were answered, from their arrival in Triton. */
  nanoseconds: number;
}

/** Until Triton answers, until its files are on the disk, until its models are loaded, and all of it. */
export type StartPhase = 'triton' | 'download' | 'load' | 'total';

export interface ServedModelState {
  name: string;
  versions: number[];
  /** Null for models without instances, such as ensembles. */
  device: ModelDevice | null;
  /** How it answered when the release was tried; null if it was not asked. */
  asked: Asked | null;
}
