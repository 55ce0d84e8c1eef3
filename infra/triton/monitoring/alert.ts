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

/** One alert; docs/runbook.md has a section with its name. */
export interface Alert {
  name: AlertName;
  /** `critical`: requests fail or are about to fail, so page an operator. `warning`: investigate within the day. */
  severity: 'critical' | 'warning';
  /** How long the expression must hold. */
  forSeconds: number;
  /** PromQL. Each series of the result is a case. */
  expression: string;
  /** One line, which may contain labels of the case. */
  summary: string;
}
