import type { ReplicaSource } from '../../cluster/source';
import type { S3Store } from '../../s3/store';
import type { RepositoryLocation } from '../location';
import type { SeenRepository } from '../plan/snapshot';
import type { Plan } from '../plan/plan';
import type { Provenance } from '../release/provenance';
import type { Asked, Release } from '../release/release';
import type { RolloutOptions, RolloutResult, StillLoaded } from './rollout';
import type { WantedModel } from '../plan/desired';

/** What the repository and the servers are to be brought to. */
export interface Target {
  models: WantedModel[];
  /** Models of the release that are to be taken out of service and out of the repository. */
  remove: string[];
  /** Keep the bytes of what is removed beside the repository. */
  keepRemoved: boolean;
  /** Delete versions and files of `models` that are not part of them any more. */
  prune: boolean;
  /** Replace objects of published versions, which is a conflict otherwise. */
  replacePublished?: boolean;
  /** For the release: what made it. */
  origin: string;
  /** For the release: which one it goes back to. */
  restores?: string;
  /** What to do where published objects would be changed. Default: to publish another version. */
  conflictHint?: (keys: readonly string[]) => string;
  /** For the release: its commit and message. Asked for only when there will be a release. */
  provenance?: () => Promise<Provenance>;
  /** @throws UserError when the plan cannot be carried out, which a dry run is to tell as well */
  check?: (plan: Plan) => Promise<void>;
}

export interface ChangeOptions extends Omit<RolloutOptions, 'ask'> {
  store: S3Store;
  location: RepositoryLocation;
  /** Undefined: the servers are not told. */
  replicas: ReplicaSource | undefined;
  /**
   * Loads models whose configurations were activated, in place of a rollout to `replicas`. Models whose names it returns
   * have failed: they leave the repository and the release, which is no state to restore with them.
   */
  activate?: (models: readonly WantedModel[]) => Promise<readonly string[]>;
  dryRun?: boolean;
  /** Ask no model whether it answers as it should. */
  noAsk?: boolean;
  /** Of the release, instead of the subject of its commit. */
  message?: string;
  /** Called when a model was asked on a replica: `answered zeros`. */
  onAsked?: (replica: string, model: string, result: string) => void;
  /** How long to wait for another publisher. */
  lockTimeoutMs: number;
  /** A look that was begun before, while the target was read. */
  firstLook?: Promise<SeenRepository>;
  /** Called before anything is written; again if the repository changed meanwhile. */
  onPlan?: (plan: Plan) => void;
  /** Asked before anything is deleted; no is an error. */
  confirmPrune?: (plan: Plan) => Promise<boolean>;
  onBytes?: (key: string, bytes: number) => void;
  /** What is being done, and what is waited for. */
  onStage?: (text: string) => void;
}

export interface Changed {
  plan: Plan;
  /** Undefined after a dry run on a bucket without a release. */
  release: Release | undefined;
  /** Whether it is a new one. */
  isNew: boolean;
  /** Undefined when the servers were not told. */
  replicas?: RolloutResult | undefined;
  /** Models that are no longer in the release and could not be unloaded. */
  stillLoaded?: StillLoaded[];
  /** Model -> how it was asked. */
  asked?: ReadonlyMap<string, Asked>;
}
