import { type RuleRow } from '../case';

/** Queueing, batching, responses, metrics and instances. */
export const SCHEDULING: readonly RuleRow[] = [
  ['a negative batch size', { max_batch_size: -1 }, 'max_batch_size', 'must not be negative, got -1'],
  [
    'dynamic batching without a batch axis',
    { max_batch_size: 0, dynamic_batching: {} },
    'dynamic_batching',
    'has no effect: max_batch_size is 0',
  ],
  [
    'a preferred size of 0',
    { dynamic_batching: { preferred_batch_size: [0] } },
    'dynamic_batching.preferred_batch_size[0]',
    'does not fit max_batch_size 8, got 0',
  ],
  [
    'a preferred size above the largest',
    { dynamic_batching: { preferred_batch_size: [4, 9] } },
    'dynamic_batching.preferred_batch_size[1]',
    'does not fit max_batch_size 8, got 9',
  ],
  [
    'a negative preferred size',
    { dynamic_batching: { preferred_batch_size: [-4] } },
    'dynamic_batching.preferred_batch_size[0]',
    'does not fit',
  ],
  [
    'no default priority',
    { dynamic_batching: { priority_levels: 2 } },
    'dynamic_batching.default_priority_level',
    'is not one of the priority_levels, got 0',
  ],
  [
    'a default priority above all',
    { dynamic_batching: { priority_levels: 2, default_priority_level: 3 } },
    'dynamic_batching.default_priority_level',
    'is not one of the priority_levels, got 3',
  ],
  [
    'a policy for no priority',
    { dynamic_batching: { priority_levels: 2, default_priority_level: 1, priority_queue_policy: { 3: {} } } },
    'dynamic_batching.priority_queue_policy["3"]',
    'is not one of the priority_levels',
  ],
  [
    'priorities in order',
    { dynamic_batching: { preserve_ordering: true, priority_levels: 2, default_priority_level: 1 } },
    'dynamic_batching.priority_levels',
    'preserve_ordering allows one',
  ],
  [
    'delays in order',
    {
      dynamic_batching: {
        preserve_ordering: true,
        default_queue_policy: { timeout_action: 'DELAY', default_timeout_microseconds: 1 },
      },
    },
    'dynamic_batching.default_queue_policy.timeout_action',
    'must not be DELAY',
  ],
  [
    'cached answers of a decoupled model',
    { model_transaction_policy: { decoupled: true }, response_cache: { enable: true } },
    'response_cache.enable',
    'cannot stand beside a decoupled',
  ],
  [
    'a metric without a family',
    { model_metrics: { metric_control: [{ histogram_options: { buckets: [1] } }] } },
    'model_metrics.metric_control[0].metric_identifier.family',
    'is missing',
  ],
  [
    'a metric without buckets',
    { model_metrics: { metric_control: [{ metric_identifier: { family: 'f' } }] } },
    'model_metrics.metric_control[0].histogram_options.buckets',
    'is missing',
  ],
  ['a negative count', { instance_group: [{ count: -1 }] }, 'instance_group[0].count', 'must not be negative, got -1'],
  [
    'a million instances',
    { instance_group: [{ count: 1_000_000 }] },
    'instance_group[0].count',
    'is more than any server can run',
  ],
  [
    'GPUs of the CPU',
    { instance_group: [{ kind: 'KIND_CPU', gpus: [0] }] },
    'instance_group[0].gpus',
    'cannot stand beside KIND_CPU',
  ],
  [
    'GPUs of the model',
    { instance_group: [{ kind: 'KIND_MODEL', gpus: [0] }] },
    'instance_group[0].gpus',
    'cannot stand beside KIND_MODEL',
  ],
  [
    'a negative GPU',
    { instance_group: [{ kind: 'KIND_GPU', gpus: [0, -1] }] },
    'instance_group[0].gpus[1]',
    "is no GPU's number, got -1",
  ],
  [
    'a profile outside TensorRT',
    { instance_group: [{ profile: ['0'] }] },
    'instance_group[0].profile',
    'is for platform tensorrt_plan alone',
  ],
];
