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

/** An instance type that this package does not know, with facts of Karpenter's list. */
export const G7E = {
  name: 'g7e.2xlarge',
  gpu: 'RTX PRO 6000',
  computeCapability: '12.0',
  gpuMemoryGB: 96,
  gpus: 1,
  vcpus: 8,
  memoryGiB: 64,
  podMemoryMiB: 57_471,
  nvmeGB: 1900,
  usdPerHour: 3.36,
};

/** An instance type whose GPUs CUDA 13 does not support. */
export const P3 = { ...G7E, name: 'p3.2xlarge', gpu: 'V100', computeCapability: '7.0', gpuMemoryGB: 16 };

export const POOL = { name: 'a10g', instanceTypes: ['g5.xlarge'] };
