/** The names of all alerts, which docs/operations.md explains in this order. */
export const ALERT_NAMES = [
  'TritonDown',
  'TritonCapacityLow',
  'TritonReplicasMissing',
  'TritonModelGone',
  'TritonNoModels',
  'TritonRestarting',
  'TritonReplicaEvicted',
  'TritonMemoryHigh',
  'TritonUnschedulable',
  'TritonModelsDiffer',
  'TritonNotServing',
  'TritonAgentDown',
  'TritonReleaseNotServed',
  'TritonHeadUnread',
  'TritonDownloadFailing',
  'TritonRequestsFailing',
  'TritonRequestsCanceled',
  'TritonQueueLong',
  'TritonRequestsStuck',
  'TritonGpuMissing',
  'TritonAtMaximumReplicas',
  'TritonAutoscalerFailing',
] as const;

export type AlertName = (typeof ALERT_NAMES)[number];
