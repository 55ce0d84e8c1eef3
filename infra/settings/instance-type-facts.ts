import type { ProblemList } from '../../src/core/problems';
import { didYouMean } from '../../src/core/nearest';
import { findFacts, GPU_INSTANCE_TYPE_NAMES, isKnownGpu, type GivenFacts } from '../gpu/gpu-instance-types';
import type { GpuNodePoolSettings } from './types';

/**
 * Each fact has one place: a type is in the list of this package or here, and here once; the same applies to its GPU.
 *
 * @returns whether the facts are valid
 */
export function checkGivenFacts(given: readonly GivenFacts[], problems: ProblemList): boolean {
  const before = problems.problems.length;
  given.forEach((one, index) => {
    const at = (field: string): string => `instanceTypeFacts[${index}].${field}`;
    if (findFacts({}, one.name) !== undefined) {
      problems.add(at('name'), `is ${one.name}, which this package knows`, {
        hint: 'remove it from instanceTypeFacts',
      });
    }
    if (given.findIndex(({ name }) => name === one.name) !== index) {
      problems.add(at('name'), `is ${one.name}, like that of another item`, { hint: 'remove one of the two' });
    }
    const mostMiB = one.memoryGiB * 1024;
    if (one.podMemoryMiB !== undefined && one.podMemoryMiB > mostMiB) {
      problems.add(at('podMemoryMiB'), `is ${one.podMemoryMiB}`, {
        allowed: `at most ${mostMiB}, the memory of ${one.name}`,
      });
    }
    for (const field of ['computeCapability', 'gpuMemoryGB'] as const) {
      const value = one[field];
      if (isKnownGpu(one.gpu) && value !== undefined) {
        problems.add(at(field), `is ${value}, but this package knows the GPU ${one.gpu}`, { hint: 'remove it' });
      }
      if (!isKnownGpu(one.gpu) && value === undefined) {
        problems.add(at(field), `is missing, and this package does not know the GPU ${one.gpu}`);
      }
    }
  });
  return problems.problems.length === before;
}

const getExample = (name: string): string =>
  `instanceTypeFacts: [{ name: ${name}, gpu: L4, gpus: 1, vcpus: 8, memoryGiB: 32, nvmeGB: 450, usdPerHour: 0.98 }]`;

/**
 * Reports instance types of a pool without facts.
 * @returns whether all types have facts, which every other check of the pool needs
 */
export function checkTypesAreKnown(pool: GpuNodePoolSettings, problems: ProblemList, at: string): boolean {
  const unknown = pool.instanceTypes.filter((type) => findFacts(pool, type) === undefined);
  for (const type of unknown) {
    const near = didYouMean(type, GPU_INSTANCE_TYPE_NAMES);
    const example = `For a type that is not in the list, give its facts: ${getExample(type)}`;
    problems.add(`${at}[${pool.instanceTypes.indexOf(type)}]`, `is "${type}"`, {
      allowed: `${GPU_INSTANCE_TYPE_NAMES.join(', ')}, and the names in instanceTypeFacts`,
      hint: near === undefined ? example : `${near} ${example}`,
    });
  }
  return unknown.length === 0;
}
