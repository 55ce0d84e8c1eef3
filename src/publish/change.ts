import type { ReleaseArchive } from './release/archive';
import type { Release } from './release/release';
import { applyChange } from './apply/apply';
import type { ApplyOptions, ApplyResult, DesiredState } from './apply/options';
import { applyRelease } from './trial/apply-release';

/**
 * Reaches the desired state through agents, or directly.
 * @param getTarget gets the current release, and with agents the releases that are retained
 */
export const change = (
  getTarget: (release: Release | undefined, archive?: ReleaseArchive) => Promise<DesiredState>,
  options: ApplyOptions,
): Promise<ApplyResult> =>
  options.agents === undefined ? applyChange(getTarget, options) : applyRelease(getTarget, options.agents, options);
