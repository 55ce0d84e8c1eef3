import type { ModelConfig } from '../model-config';
import type { PlatformFacts } from '../platforms';
import type { ProblemList } from '../../core/problems';

/** A model whose configuration could be read, and where to say what is wrong with it. */
export interface CheckedModel {
  /** Name of its folder. */
  name: string;
  /** Absolute path of its folder. */
  directory: string;
  config: ModelConfig;
  /** Whether it is a config.pbtxt of the user's own: what Triton serves is then right, also where we would advise against it. */
  handWritten: boolean;
  facts: PlatformFacts | undefined;
  /** Numbers of the version folders; undefined where folders are not looked at. */
  versions: readonly number[] | undefined;
  /** Those that the version_policy has Triton serve; undefined where folders are not looked at. */
  served: readonly number[] | undefined;
  problems: ProblemList;
}

/** One thing that Triton insists on, of one model by itself. */
export type ModelRule = (model: CheckedModel) => void;
