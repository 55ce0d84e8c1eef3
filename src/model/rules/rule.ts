import type { ModelConfig } from '../model-config';
import type { PlatformFacts } from '../platforms';
import type { ProblemList } from '../../core/problems';

/** A model whose configuration could be read, with the list for its problems. */
export interface CheckedModel {
  /** Name of its folder. */
  name: string;
  /** Absolute path of its folder. */
  directory: string;
  config: ModelConfig;
  /** Whether the user wrote the config.pbtxt. We then accept all that Triton serves, even if we advise against it. */
  isPbtxt: boolean;
  facts: PlatformFacts | undefined;
  /** Numbers of the version folders; undefined if folders are not checked. */
  versions: readonly number[] | undefined;
  /** Versions that the version_policy selects; undefined if folders are not checked. */
  served: readonly number[] | undefined;
  problems: ProblemList;
}

/** Checks one requirement of Triton for one model by itself. */
export type ModelRule = (model: CheckedModel) => void;
