/** The names of all alerts, which docs/runbook.md explains in this order. */
export const ALERT_NAMES = [
  'TritonDown',
  'TritonCapacityLow',
  'TritonModelGone',
  'TritonNoModels',
  'TritonReplicaEvicted',
  'TritonMemoryHigh',
  'TritonNotServing',
  'TritonAgentDown',
  'TritonReleaseNotServed',
  'TritonHeadUnread',
  'TritonDownloadFailing',
  'TritonRequestsFailing',
  'TritonRequestsCanceled',
  'TritonErrorBudgetBurnFast',
  'TritonErrorBudgetBurnSlow',
  'TritonLatencyBudgetBurnFast',
  'TritonLatencyBudgetBurnSlow',
  'TritonQueueLong',
  'TritonRequestsStuck',
  'TritonGpuMissing',
] as const;

export type AlertName = (typeof ALERT_NAMES)[number];
