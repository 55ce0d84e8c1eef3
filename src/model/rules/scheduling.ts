import type { CheckedModel, ModelRule } from './rule';

const maxBatchSize = ({ config }: CheckedModel): number => config.max_batch_size ?? 0;

const batchSizeIsNotNegative: ModelRule = (model) => {
  if (maxBatchSize(model) >= 0) return;
  model.problems.add('max_batch_size', `must not be negative, got ${maxBatchSize(model)}`, {
    allowed: '0 for no batch axis, or the largest batch',
  });
};

/** Without a batch axis, Triton accepts dynamic_batching but uses only its queue settings. */
const dynamicBatchingNeedsABatchAxis: ModelRule = (model) => {
  const batching = model.config.dynamic_batching;
  if (batching === undefined || maxBatchSize(model) > 0) return;
  const { default_queue_policy, priority_levels, preserve_ordering } = batching;
  if (default_queue_policy !== undefined || priority_levels !== undefined || preserve_ordering) return;
  model.problems.add('dynamic_batching', 'has no effect, because requests cannot be joined with max_batch_size: 0', {
    hint: 'set max_batch_size and remove the batch axis from dims, or remove dynamic_batching',
  });
};

const preferredSizesAreInRange: ModelRule = (model) => {
  const { dynamic_batching: dynamic, sequence_batching: sequence } = model.config;
  const lists = [
    ['dynamic_batching.preferred_batch_size', dynamic?.preferred_batch_size ?? []],
    ['sequence_batching.oldest.preferred_batch_size', sequence?.oldest?.preferred_batch_size ?? []],
  ] as const;
  for (const [field, sizes] of lists) {
    sizes.forEach((size, index) => {
      if (size >= 1 && size <= maxBatchSize(model)) return;
      model.problems.add(`${field}[${index}]`, `does not fit max_batch_size ${maxBatchSize(model)}, got ${size}`, {
        allowed: maxBatchSize(model) > 0 ? `1 to ${maxBatchSize(model)}` : 'none without a batch axis',
      });
    });
  }
};

/** Each instance has a thread or a process. A server took 8 seconds for a thousand instances of an empty model. */
const MOST_INSTANCES = 1000;

/** A count of 0 is Triton's default; it runs one instance for a negative count. */
const instancesAreCountable: ModelRule = ({ config, problems }) => {
  if (config.ensemble_scheduling !== undefined) return;
  (config.instance_group ?? []).forEach(({ count = 0 }, index) => {
    const field = `instance_group[${index}]`;
    if (count < 0) problems.add(`${field}.count`, `must not be negative, got ${count}`, { allowed: '1 or more' });
    if (count > MOST_INSTANCES) {
      problems.add(`${field}.count`, `exceeds the number of instances that a server can run, got ${count}`, {
        allowed: `1 to ${MOST_INSTANCES}`,
      });
    }
  });
};

/** An ensemble runs no model itself. Its steps have their own instances, optimisation and warm-up. */
const ensembleHasNoInstances: ModelRule = ({ config, problems }) => {
  if (config.ensemble_scheduling === undefined) return;
  for (const field of ['instance_group', 'optimization', 'model_warmup']) {
    const value = config[field];
    if (value === undefined || (Array.isArray(value) && value.length === 0)) continue;
    problems.add(field, 'cannot be set for an ensemble', { hint: 'set it in the models of its steps' });
  }
};

/** Rules for batches, and for instances. */
export const schedulingRules: readonly ModelRule[] = [
  batchSizeIsNotNegative,
  dynamicBatchingNeedsABatchAxis,
  preferredSizesAreInRange,
  instancesAreCountable,
  ensembleHasNoInstances,
];
