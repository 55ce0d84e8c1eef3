import { type RuleCase } from '../case';

/** Queueing, batching, responses, metrics and instances. */
export const SCHEDULING: readonly RuleCase[] = [
  [
    { max_batch_size: -1 },
    'max_batch_size: must not be negative, got -1; allowed: 0 for no batch axis, or the largest batch',
  ],
  [
    { max_batch_size: 0, dynamic_batching: {} },
    'dynamic_batching: has no effect, because requests cannot be joined with max_batch_size: 0\n    -> set max_batch_size and remove the batch axis from dims, or remove dynamic_batching',
  ],
  [
    { dynamic_batching: { preferred_batch_size: [0] } },
    'dynamic_batching.preferred_batch_size[0]: does not fit max_batch_size 8, got 0; allowed: 1 to 8',
  ],
  [
    { dynamic_batching: { preferred_batch_size: [4, 9] } },
    'dynamic_batching.preferred_batch_size[1]: does not fit max_batch_size 8, got 9; allowed: 1 to 8',
  ],
  [
    { dynamic_batching: { priority_levels: 2 } },
    'dynamic_batching.default_priority_level: is not one of the priority_levels, got 0; allowed: 1 to 2',
  ],
  [
    { dynamic_batching: { priority_levels: 2, default_priority_level: 3 } },
    'dynamic_batching.default_priority_level: is not one of the priority_levels, got 3; allowed: 1 to 2',
  ],
  [
    { dynamic_batching: { priority_levels: 2, default_priority_level: 1, priority_queue_policy: { 3: {} } } },
    'dynamic_batching.priority_queue_policy["3"]: is not one of the priority_levels; allowed: 1 to 2',
  ],
  [
    { dynamic_batching: { preserve_ordering: true, priority_levels: 2, default_priority_level: 1 } },
    'dynamic_batching.priority_levels: must be 0 or 1 with preserve_ordering, got 2; allowed: 0 or 1',
  ],
  [
    {
      dynamic_batching: {
        preserve_ordering: true,
        default_queue_policy: { timeout_action: 'DELAY', default_timeout_microseconds: 1 },
      },
    },
    'dynamic_batching.default_queue_policy.timeout_action: must not be DELAY with preserve_ordering; allowed: REJECT',
  ],
  [
    { model_transaction_policy: { decoupled: true }, response_cache: { enable: true } },
    'response_cache.enable: cannot be combined with a decoupled model_transaction_policy\n    -> remove response_cache',
  ],
  [
    { model_metrics: { metric_control: [{ histogram_options: { buckets: [1] } }] } },
    'model_metrics.metric_control[0].metric_identifier.family: is missing',
  ],
  [
    { model_metrics: { metric_control: [{ metric_identifier: { family: 'f' } }] } },
    'model_metrics.metric_control[0].histogram_options.buckets: is missing',
  ],
  [{ instance_group: [{ count: -1 }] }, 'instance_group[0].count: must not be negative, got -1; allowed: 1 or more'],
  [
    { instance_group: [{ count: 1_000_000 }] },
    'instance_group[0].count: exceeds the number of instances that a server can run, got 1000000; allowed: 1 to 1000',
  ],
  [
    {
      dynamic_batching: {
        preserve_ordering: true,
        priority_levels: 1,
        default_priority_level: 1,
        priority_queue_policy: { 1: { timeout_action: 'DELAY', default_timeout_microseconds: 1 } },
      },
    },
    'dynamic_batching.priority_queue_policy["1"].timeout_action: must not be DELAY with preserve_ordering; allowed: REJECT',
  ],
];
