import type { QueuePolicy } from '../model-config';
import { fieldPath } from '../../core/problems';
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

const prioritiesAreInRange: ModelRule = ({ config, problems }) => {
  const batching = config.dynamic_batching;
  const levels = BigInt(batching?.priority_levels ?? 0);
  if (batching === undefined || levels === 0n) return;
  const allowed = `1 to ${levels}`;
  const given = batching.default_priority_level ?? 0;
  if (BigInt(given) < 1n || BigInt(given) > levels) {
    problems.add('dynamic_batching.default_priority_level', `is not one of the priority_levels, got ${given}`, {
      allowed,
    });
  }
  for (const level of Object.keys(batching.priority_queue_policy ?? {})) {
    if (BigInt(level) >= 1n && BigInt(level) <= levels) continue;
    problems.add(fieldPath('dynamic_batching.priority_queue_policy', level), 'is not one of the priority_levels', {
      allowed,
    });
  }
};

/** preserve_ordering excludes priorities and delayed requests. */
const orderIsKept: ModelRule = ({ config: { dynamic_batching: batching }, problems }) => {
  if (!batching?.preserve_ordering) return;
  if (BigInt(batching.priority_levels ?? 0) > 1n) {
    problems.add(
      'dynamic_batching.priority_levels',
      `must be 0 or 1 with preserve_ordering, got ${batching.priority_levels}`,
      {
        allowed: '0 or 1',
      },
    );
  }
  const policies: [string, QueuePolicy | undefined][] = [
    ['dynamic_batching.default_queue_policy', batching.default_queue_policy],
    ...Object.entries(batching.priority_queue_policy ?? {}).map(([level, policy]): [string, QueuePolicy] => [
      fieldPath('dynamic_batching.priority_queue_policy', level),
      policy,
    ]),
  ];
  for (const [field, policy] of policies) {
    if (policy?.timeout_action !== 'DELAY' || BigInt(policy.default_timeout_microseconds ?? 0) === 0n) continue;
    problems.add(`${field}.timeout_action`, 'must not be DELAY with preserve_ordering', { allowed: 'REJECT' });
  }
};

const slotUtilizationIsAFraction: ModelRule = ({ config, problems }) => {
  const utilization = config.sequence_batching?.direct?.minimum_slot_utilization ?? 0;
  if (utilization >= 0 && utilization <= 1) return;
  problems.add('sequence_batching.direct.minimum_slot_utilization', `is not a fraction, got ${utilization}`, {
    allowed: '0 to 1',
  });
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

/** Triton caches one answer per request, but sequences and decoupled models do not give one answer per request. */
const cachedAnswersStandAlone: ModelRule = ({ config, problems }) => {
  if (!config.response_cache?.enable) return;
  const hint = 'remove response_cache';
  if (config.sequence_batching !== undefined)
    problems.add('response_cache.enable', 'cannot be combined with sequence_batching', { hint });
  if (config.model_transaction_policy?.decoupled)
    problems.add('response_cache.enable', 'cannot be combined with a decoupled model_transaction_policy', { hint });
};

const metricsAreComplete: ModelRule = ({ config, problems }) => {
  (config.model_metrics?.metric_control ?? []).forEach(({ metric_identifier, histogram_options }, index) => {
    const field = `model_metrics.metric_control[${index}]`;
    if (!metric_identifier?.family) problems.add(`${field}.metric_identifier.family`, 'is missing');
    if (histogram_options?.buckets === undefined) problems.add(`${field}.histogram_options.buckets`, 'is missing');
  });
};

/** Rules for queueing, and for instances. */
export const schedulingRules: readonly ModelRule[] = [
  batchSizeIsNotNegative,
  dynamicBatchingNeedsABatchAxis,
  preferredSizesAreInRange,
  prioritiesAreInRange,
  orderIsKept,
  slotUtilizationIsAFraction,
  instancesAreCountable,
  ensembleHasNoInstances,
  cachedAnswersStandAlone,
  metricsAreComplete,
];
