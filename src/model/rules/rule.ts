import { elementCount } from '../../triton/tensor';
import { MOST_ELEMENTS, type ModelConfig } from '../model-config';
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
  /** The release of Triton that is to serve the model, if only one is meant. */
  triton?: string | undefined;
  problems: ProblemList;
}

/** Checks one requirement of Triton for one model by itself. */
export type ModelRule = (model: CheckedModel) => void;

/** Reports the shape of given values that is not one, does not fit the `dims` of the input or state, or is too large. */
export function checkSizes(
  problems: ProblemList,
  field: string,
  given: readonly number[],
  { of, dims }: { of: 'input' | 'state'; dims: readonly number[] | undefined },
): void {
  const fits = dims?.length === given.length && given.every((size, axis) => [-1, size].includes(dims[axis] ?? 0));
  const shown = `got [${given.join(', ')}]`;
  if (given.some((size) => size < 1)) {
    problems.add(field, `must contain sizes only, ${shown}`, { allowed: '1 or more each' });
  } else if (dims !== undefined && !fits) {
    problems.add(field, `does not match the shape of the ${of}, ${shown}`, { allowed: `[${dims.join(', ')}]` });
  } else if (elementCount(given) > MOST_ELEMENTS) {
    problems.add(field, `is too large for the memory of a server, ${shown}`, {
      allowed: `at most ${MOST_ELEMENTS} elements`,
    });
  }
}
