import type { Problem } from '../core/errors';
import type { RepositoryLocation } from '../release/location';
import type { Manifest, Provenance } from '../release/manifest';
import type { S3Store } from '../s3/store';
import type { AgentSource } from './agent-client';
import type { DesiredModel } from './desired';
import type { BakeRecord } from '../release/bake';
import type { BakeRules } from './bake';
import type { Plan } from './plan';
import type { TrialOptions } from './trials';

export interface DesiredState {
  models: DesiredModel[];
  /** Models of the current release that the next one does not have. */
  remove: string[];
  /** Upload other content of a released version, which is otherwise a conflict. */
  replacePublished?: boolean | undefined;
  /** For the release: its origin, such as `rollback to ID`. */
  origin: string;
  /** For the release: the id of the release that a rollback restores. */
  restores?: string;
  /** The command that traces a version of a model; undefined for a model that is not traced. */
  traceCommand?: (model: string, version: number) => string | undefined;
  /** For the release: its commit and message. Called only if a release will be written. */
  provenance?: () => Promise<Provenance>;
}

export interface ReleaseOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** The replicas that try the release before it becomes the current one. Undefined: none were given. */
  agents?: AgentSource | undefined;
  /** Make the release the current one although no replica has tried it. */
  untried?: boolean | undefined;
  /** See `unloadFirst` of a manifest. */
  unloadFirst?: boolean | undefined;
  noAsk?: boolean | undefined;
  /** Compare the release with the current one while clients reach both, before other replicas than the first try it. */
  bake?: BakeRules | undefined;
  /** Times that tests shorten. */
  trials?: Partial<TrialOptions>;
  dryRun?: boolean | undefined;
  /** Message of the release, instead of the subject of its commit. */
  message?: string | undefined;
  /** For one model to load on one replica. */
  loadTimeoutMs: number;
  /** How long to wait for another publisher. */
  waitMs: number;
  signal?: AbortSignal | undefined;
  /** Called before anything is written, and again if the repository changed in the meantime. */
  onPlan?: (plan: Plan) => void;
  onBytes?: (key: string, bytes: number) => void;
  /** Called with what the user may have forgotten; nothing stops. May repeat a warning. */
  onWarning?: (warning: Problem) => void;
  /** Called if clients reach the only replica while it tries the release. */
  onOnlyReplica?: (replica: string) => void;
  /** Called with the current step, or with the reason for waiting. */
  onStage?: (text: string) => void;
  /** Called with the numbers of the bake. */
  onBake?: (text: string) => void;
}

export interface ReleaseResult {
  plan: Plan;
  /** Undefined after a dry run on a bucket without a release. */
  release: Manifest | undefined;
  /** Whether this release was made now; after a dry run, whether a publish would make one. */
  isNew: boolean;
  /** Names of the replicas that serve the release; undefined if none was asked. */
  replicas?: string[] | undefined;
  bake?: BakeRecord | undefined;
}
