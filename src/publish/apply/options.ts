import type { Problem } from '../../core/errors';
import type { ReplicaSource } from '../../cluster/source';
import type { S3Store } from '../../s3/store';
import type { RepositoryLocation } from '../../release/location';
import type { RepositorySnapshot } from '../plan/snapshot';
import type { Plan } from '../plan/plan';
import type { Provenance } from '../../release/released';
import type { Asked } from '../../release/ask';
import type { Release } from '../release/release';
import type { AgentMode } from '../trial/mode';
import type { TrialOptions } from '../trial/trials';
import type { RolloutOptions, RolloutResult, StillLoaded } from './rollout';
import type { DesiredModel } from '../plan/desired';

/** The desired state of the repository and the replicas. */
export interface DesiredState {
  models: DesiredModel[];
  /** Models of the release that are removed from service and from the repository. */
  remove: string[];
  /** Archive removed objects beside the repository. */
  archiveRemoved: boolean;
  /** Delete versions and files of `models` that no longer belong to them. */
  prune: boolean;
  /** Replace objects of published versions, which is otherwise a conflict. */
  replacePublished?: boolean;
  /** For the release: its origin, such as `rollback to ID`. */
  origin: string;
  /** For the release: the id of the release that a rollback restores. */
  restores?: string;
  /** The hint if published objects would be changed. Default: publish another version. */
  conflictHint?: (keys: readonly string[]) => string;
  /** The command that traces a version of a model; undefined for a model that is not traced. */
  traceCommand?: (model: string, version: number) => string | undefined;
  /** For the release: its commit and message. Called only if a release will be written. */
  provenance?: () => Promise<Provenance>;
  /** @throws UserError if the plan cannot be carried out; also called in a dry run */
  check?: (plan: Plan) => Promise<void>;
}

export interface ApplyOptions extends RolloutOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** Set if the replicas have agents. Without it they read the bucket themselves. */
  agents?: AgentMode | undefined;
  /** With agents: the same bucket, whose requests end within ten seconds. So no commit is under way for long. */
  commitStore?: S3Store | undefined;
  /** With agents: make the release the current one although no replica has tried it. */
  untried?: boolean;
  /** With agents: see `unloadFirst` of a manifest. */
  unloadFirst?: boolean | undefined;
  /** With agents: times that tests shorten. */
  trials?: Partial<TrialOptions>;
  /** Undefined: there is no rollout. */
  replicas: ReplicaSource | undefined;
  /**
   * Loads models whose configurations were activated, before the rollout to `replicas`. Returns the names of models that
   * failed to load or answered wrongly, steps before their ensembles. These are restored to the previous release. If
   * that is impossible, they are removed from the repository and from the release, because a release with them could not
   * be restored.
   */
  activate?: (models: readonly DesiredModel[]) => Promise<readonly string[]>;
  dryRun?: boolean;
  /** Asks a model instead of the golden requests of the change. */
  ask?: RolloutOptions['ask'];
  /** Do not verify the answers of models. */
  noAsk?: boolean;
  /** Message of the release, instead of the subject of its commit. */
  message?: string;
  /** Called when a model was asked on a replica: `answered zeros`. */
  onAsked?: (replica: string, model: string, result: string) => void;
  /** How long to wait for another publisher. */
  lockTimeoutMs: number;
  /** A snapshot that was started while the target was read. */
  firstSnapshot?: Promise<RepositorySnapshot>;
  /** Called before anything is written, and again if the repository changed in the meantime. */
  onPlan?: (plan: Plan) => void;
  /** Called before anything is deleted; false aborts the change with an error. */
  confirmPrune?: (plan: Plan) => Promise<boolean>;
  onBytes?: (key: string, bytes: number) => void;
  /** Called with what the user may have forgotten; nothing stops. May repeat a warning. */
  onWarning?: (warning: Problem) => void;
  /** Called with the current step, or with the reason for waiting. */
  onStage?: (text: string) => void;
}

export interface ApplyResult {
  plan: Plan;
  /** Undefined after a dry run on a bucket without a release. */
  release: Release | undefined;
  /** Whether the change wrote this release. */
  isNew: boolean;
  /** Undefined if there was no rollout. */
  replicas?: RolloutResult | undefined;
  /** Models that are no longer in the release and could not be unloaded. */
  stillLoaded?: StillLoaded[];
  /** Model -> how it was asked. */
  asked?: ReadonlyMap<string, Asked>;
}
