import { type RuleCase } from '../case';

/** Queueing, batching, responses, metrics and instances. */
export const SCHEDULING: readonly RuleCase[] = [
  {
    name: 'a negative batch size',
    fields: { max_batch_size: -1 },
    problems: 'max_batch_size: must not be negative, got -1; allowed: 0 for no batch axis, or the largest batch',
  },
  {
    name: 'dynamic batching without a batch axis',
    fields: { max_batch_size: 0, dynamic_batching: {} },
    problems:
      'dynamic_batching: has no effect, because requests cannot be joined with max_batch_size: 0\n    -> set max_batch_size and remove the batch axis from dims, or remove dynamic_batching',
  },
  {
    name: 'a preferred size of 0',
    fields: { dynamic_batching: { preferred_batch_size: [0] } },
    problems: 'dynamic_batching.preferred_batch_size[0]: does not fit max_batch_size 8, got 0; allowed: 1 to 8',
  },
  {
    name: 'a preferred size above the largest',
    fields: { dynamic_batching: { preferred_batch_size: [4, 9] } },
    problems: 'dynamic_batching.preferred_batch_size[1]: does not fit max_batch_size 8, got 9; allowed: 1 to 8',
  },
  {
    name: 'a negative preferred size',
    fields: { dynamic_batching: { preferred_batch_size: [-4] } },
    problems: 'dynamic_batching.preferred_batch_size[0]: does not fit max_batch_size 8, got -4; allowed: 1 to 8',
  },
  {
    name: 'no default priority',
    fields: { dynamic_batching: { priority_levels: 2 } },
    problems: 'dynamic_batching.default_priority_level: is not one of the priority_levels, got 0; allowed: 1 to 2',
  },
  {
    name: 'a default priority above all',
    fields: { dynamic_batching: { priority_levels: 2, default_priority_level: 3 } },
    problems: 'dynamic_batching.default_priority_level: is not one of the priority_levels, got 3; allowed: 1 to 2',
  },
  {
    name: 'a policy for no priority',
    fields: { dynamic_batching: { priority_levels: 2, default_priority_level: 1, priority_queue_policy: { 3: {} } } },
    problems: 'dynamic_batching.priority_queue_policy["3"]: is not one of the priority_levels; allowed: 1 to 2',
  },
  {
    name: 'priorities in order',
    fields: { dynamic_batching: { preserve_ordering: true, priority_levels: 2, default_priority_level: 1 } },
    problems: 'dynamic_batching.priority_levels: must be 0 or 1 with preserve_ordering, got 2; allowed: 0 or 1',
  },
  {
    name: 'delays in order',
    fields: {
      dynamic_batching: {
        preserve_ordering: true,
        default_queue_policy: { timeout_action: 'DELAY', default_timeout_microseconds: 1 },
      },
    },
    problems:
      'dynamic_batching.default_queue_policy.timeout_action: must not be DELAY with preserve_ordering; allowed: REJECT',
  },
  {
    name: 'cached answers of a decoupled model',
    fields: { model_transaction_policy: { decoupled: true }, response_cache: { enable: true } },
    problems:
      'response_cache.enable: cannot be combined with a decoupled model_transaction_policy\n    -> remove response_cache',
  },
  {
    name: 'a metric without a family',
    fields: { model_metrics: { metric_control: [{ histogram_options: { buckets: [1] } }] } },
    problems: 'model_metrics.metric_control[0].metric_identifier.family: is missing',
  },
  {
    name: 'a metric without buckets',
    fields: { model_metrics: { metric_control: [{ metric_identifier: { family: 'f' } }] } },
    problems: 'model_metrics.metric_control[0].histogram_options.buckets: is missing',
  },
  {
    name: 'a negative count',
    fields: { instance_group: [{ count: -1 }] },
    problems: 'instance_group[0].count: must not be negative, got -1; allowed: 1 or more',
  },
  {
    name: 'a million instances',
    fields: { instance_group: [{ count: 1_000_000 }] },
    problems:
      'instance_group[0].count: exceeds the number of instances that a server can run, got 1000000; allowed: 1 to 1000',
  },
  {
    name: 'GPUs of the CPU',
    fields: { instance_group: [{ kind: 'KIND_CPU', gpus: [0] }] },
    problems: 'instance_group[0].gpus: cannot be combined with KIND_CPU\n    -> set kind: KIND_GPU, or remove gpus',
  },
  {
    name: 'GPUs of the model',
    fields: { instance_group: [{ kind: 'KIND_MODEL', gpus: [0] }] },
    problems: 'instance_group[0].gpus: cannot be combined with KIND_MODEL\n    -> set kind: KIND_GPU, or remove gpus',
  },
  {
    name: 'a negative GPU',
    fields: { instance_group: [{ kind: 'KIND_GPU', gpus: [0, -1] }] },
    problems: 'instance_group[0].gpus[1]: is not a GPU number, got -1; allowed: 0, 1, ...',
  },
  {
    name: 'a profile outside TensorRT',
    fields: { instance_group: [{ profile: ['0'] }] },
    problems: 'instance_group[0].profile: is supported by platform tensorrt_plan only\n    -> remove it',
  },
  {
    name: 'a delay of one priority beside preserve_ordering',
    fields: {
      dynamic_batching: {
        preserve_ordering: true,
        priority_levels: 1,
        default_priority_level: 1,
        priority_queue_policy: { 1: { timeout_action: 'DELAY', default_timeout_microseconds: 1 } },
      },
    },
    problems:
      'dynamic_batching.priority_queue_policy["1"].timeout_action: must not be DELAY with preserve_ordering; allowed: REJECT',
  },
  {
    name: 'a negative count and a negative GPU',
    fields: { instance_group: [{ count: -1, gpus: [-2] }] },
    problems: [
      'instance_group[0].count: must not be negative, got -1; allowed: 1 or more',
      'instance_group[0].gpus[0]: is not a GPU number, got -2; allowed: 0, 1, ...',
    ],
  },
];
