import { readSettings, type ConfigSource } from '../../../infra/settings';
import { formatProblem, UserError } from '../../../src/core/errors';
import { getConfig } from '../../support/registered-stack';

/** What is said about a stack's configuration with these values, one line for each problem. */
export function getProblems(
  values: Record<string, unknown>,
  stack = 'staging',
  source: Partial<ConfigSource> = {},
): string[] {
  try {
    readSettings({ ...getConfig(stack, values), ...source });
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return error.problems.map(formatProblem).map((text) => text.replace(`Pulumi.${stack}.yaml: `, ''));
  }
  return [];
}

export const POOL = { name: 'a10g', instanceTypes: ['g5.xlarge'] };
