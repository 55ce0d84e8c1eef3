import { type RuleCase } from '../case';

/** Batching and instances. */
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
  [{ instance_group: [{ count: -1 }] }, 'instance_group[0].count: must not be negative, got -1; allowed: 1 or more'],
  [
    { instance_group: [{ count: 1_000_000 }] },
    'instance_group[0].count: exceeds the number of instances that a server can run, got 1000000; allowed: 1 to 1000',
  ],
];
