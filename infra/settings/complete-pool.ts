import { ProblemList } from '../../src/core/problems';
import { checkNodeClass } from './gpu-node-pools';
import { checkGivenFacts, checkTypesAreKnown } from './instance-type-facts';
import { POOL_FIELDS } from './pool-fields';
import { readFields } from './reader';
import type { GpuNodePoolInput, GpuNodePoolSettings } from './types';

/**
 * Fills in the defaults of a pool, for programs that use the components without a stack file of this package.
 * @throws UserError with all problems
 */
export function completePool(pool: GpuNodePoolInput): GpuNodePoolSettings {
  const problems = new ProblemList(`pool ${pool.name}`);
  const { instanceTypeFacts = [], ...fields } = pool;
  checkGivenFacts(instanceTypeFacts, problems);
  const complete = {
    ...readFields(POOL_FIELDS, fields, problems),
    ...(instanceTypeFacts.length > 0 && { instanceTypeFacts }),
  };
  if (problems.problems.length === 0) checkTypesAreKnown(complete, problems, 'instanceTypes');
  checkNodeClass(complete, problems, 'nodeClass');
  problems.refuse(`the pool ${pool.name} has invalid settings`);
  return complete;
}
