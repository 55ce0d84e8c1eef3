import { findUnsupported } from '../triton-releases';
import type { ModelRule } from './rule';

const releaseServesTheModel: ModelRule = ({ config, facts, triton, problems }) => {
  if (triton === undefined) return;
  for (const { field, message, ...more } of findUnsupported({ config, platform: facts?.label ?? '' }, triton)) {
    problems.add(field, message, more);
  }
};

export const releaseRules: readonly ModelRule[] = [releaseServesTheModel];
