import {
  agentSeries,
  deploymentSeries,
  gpuMemoryShare,
  loadedOn,
  loadedPods,
  meanQueueMilliseconds,
  podSeries,
  series,
  servingPods,
  sumRate,
  type SeriesOf,
} from './promql';

/** Settings of the stack that affect the alerts. */
export interface AlertLimits {
  /** Desired limit for the mean time in a queue. */
  queueMilliseconds: number;
  /** Whether there is an autoscaler, which may reach its maximum. */
  autoscaled: boolean;
  gpus: boolean;
  /** Whether a release agent runs beside each Triton. */
  agents: boolean;
  /** Longest time from the creation of a pod until it is ready. */
  podReadySeconds: number;
}

/** One alert; docs/operations.md has a section with its name. */
export interface Alert {
  name: string;
  /** `critical`: requests fail or are about to fail, so page an operator. `warning`: investigate within the day. */
  severity: 'critical' | 'warning';
  /** How long the expression must hold. */
  forSeconds: number;
  /** PromQL. Each series of the result is a case. */
  expression: string;
  /** One line, which may contain labels of the case. */
  summary: string;
}

/** Share of failed requests above which an operator must investigate. */
const FAILURE_SHARE = 0.01;

/** Share of GPU memory that counts as full. Frameworks keep allocated memory, so the share does not fall by itself. */
const GPU_MEMORY_SHARE = 0.95;

/** The alert needs a much longer queue than the autoscaler, which should have added replicas before. */
const QUEUE_FACTOR = 4;

/** Returns the alerts for the replicas in `of`. */
export function alerts(of: SeriesOf, limits: AlertLimits): Alert[] {
  const deployment = deploymentSeries(of);
  return [
    {
      name: 'TritonDown',
      severity: 'critical',
      forSeconds: 120,
      // Missing metrics are as bad as replicas that do not answer.
      expression: `${servingPods(of)} == 0 or absent(up${series(of)})`,
      summary: `No replica of ${of.name} answers Prometheus.`,
    },
    {
      name: 'TritonReplicasMissing',
      severity: 'warning',
      // Starting a node, pulling the image and loading the models takes up to podReadySeconds in normal operation.
      forSeconds: 2 * limits.podReadySeconds,
      expression: `kube_deployment_status_replicas_available${deployment} < kube_deployment_spec_replicas${deployment}`,
      summary: `${of.name} has {{ $value }} available replicas, fewer than desired.`,
    },
    {
      name: 'TritonRestarting',
      severity: 'warning',
      forSeconds: 0,
      // Kubernetes counts a native sidecar among the init containers.
      expression: (limits.agents ? ['container', 'init_container'] : ['container'])
        .map((kind) => `increase(kube_pod_${kind}_status_restarts_total${podSeries(of)}[1h]) > 2`)
        .join(' or '),
      summary: 'The replica {{ $labels.pod }} was restarted {{ $value | humanize }} times within an hour.',
    },
    {
      name: 'TritonUnschedulable',
      severity: 'warning',
      forSeconds: 900,
      expression: `sum by (pod) (kube_pod_status_unschedulable${podSeries(of)}) > 0`,
      summary: 'No node has room for the pod {{ $labels.pod }}.',
    },
    {
      name: 'TritonModelsDiffer',
      severity: 'warning',
      forSeconds: 900,
      // A loaded model has series, so each replica should have the same ones. Triton answers before its agent loads models, and
      // other alerts are about agents that load none.
      expression: `${loadedOn(of)} < on () group_left () ${limits.agents ? loadedPods(of) : servingPods(of)}`,
      summary:
        'Model {{ $labels.model }} version {{ $labels.version }} is loaded on {{ $value }} replicas, but not on all.',
    },
    {
      name: 'TritonRequestsFailing',
      severity: 'critical',
      forSeconds: 300,
      expression: failureShare(of),
      summary: '{{ $value | humanizePercentage }} of the requests to model {{ $labels.model }} fail.',
    },
    {
      name: 'TritonQueueLong',
      severity: 'warning',
      forSeconds: 600,
      expression: `${meanQueueMilliseconds(of, ['model'])} > ${QUEUE_FACTOR * limits.queueMilliseconds}`,
      summary: 'Requests to model {{ $labels.model }} wait {{ $value | humanize }} ms before they are computed.',
    },
    {
      name: 'TritonRequestsStuck',
      severity: 'critical',
      forSeconds: 300,
      // Pending requests do not contribute to the queue time until they complete.
      expression:
        `sum by (pod, model) (nv_inference_pending_request_count${series(of)}) > 0` +
        ` unless ${sumRate('nv_inference_request_success', of, ['pod', 'model'])} > 0`,
      summary: '{{ $value }} requests to model {{ $labels.model }} wait in pod {{ $labels.pod }}, and none completes.',
    },
    ...(limits.gpus ? [gpuMemory(of)] : []),
    ...(limits.autoscaled ? [atMaximum(of)] : []),
    ...(limits.agents ? agentAlerts(of, limits) : []),
  ];
}

/** An agent reads head.json every 10 s. */
const HEAD_UNREAD_SECONDS = 300;

/** Alerts about the release agents. */
function agentAlerts(of: SeriesOf, limits: AlertLimits): Alert[] {
  const series = agentSeries(of);
  const deployment = deploymentSeries(of);
  return [
    {
      name: 'TritonNotServing',
      severity: 'critical',
      forSeconds: 120,
      // Triton answers Prometheus also without models, so TritonDown does not fire.
      expression:
        `kube_deployment_status_replicas_available${deployment} == 0` +
        ` and kube_deployment_spec_replicas${deployment} > 0`,
      summary: `No replica of ${of.name} serves its models.`,
    },
    {
      name: 'TritonAgentDown',
      severity: 'warning',
      forSeconds: 300,
      expression: `up${series} == 0`,
      summary: 'The release agent of pod {{ $labels.pod }} does not answer.',
    },
    {
      name: 'TritonReleaseNotServed',
      severity: 'warning',
      // A pod that starts downloads and loads the release within this time.
      forSeconds: limits.podReadySeconds,
      // During a trial, a pod serves a release that is not yet the current one.
      expression: `triton_agent_serves_head${series} == 0 unless triton_agent_trial_active${series} == 1`,
      summary: 'The replica {{ $labels.pod }} does not serve the current release.',
    },
    {
      name: 'TritonHeadUnread',
      severity: 'warning',
      forSeconds: 60,
      expression: `time() - triton_agent_last_head_read_timestamp_seconds${series} > ${HEAD_UNREAD_SECONDS}`,
      summary:
        'The replica {{ $labels.pod }} has not read the current release from S3 for {{ $value | humanizeDuration }}.',
    },
    {
      name: 'TritonDownloadFailing',
      severity: 'warning',
      forSeconds: 0,
      // Each attempt counts, and a failed one is repeated after some seconds.
      expression: `increase(triton_agent_download_failures_total${series}[15m]) > 3`,
      summary:
        'The replica {{ $labels.pod }} cannot download a release: {{ $value | humanize }} failures in 15 minutes.',
    },
  ];
}

function failureShare(of: SeriesOf): string {
  const failed = sumRate('nv_inference_request_failure', of, ['model']);
  const succeeded = sumRate('nv_inference_request_success', of, ['model']);
  return `${failed} / (${failed} + ${succeeded}) > ${FAILURE_SHARE}`;
}

function gpuMemory(of: SeriesOf): Alert {
  return {
    name: 'TritonGpuMemoryFull',
    severity: 'warning',
    forSeconds: 900,
    expression: `${gpuMemoryShare(of)} > ${GPU_MEMORY_SHARE}`,
    summary: 'The memory of a GPU of pod {{ $labels.pod }} is {{ $value | humanizePercentage }} full.',
  };
}

function atMaximum(of: SeriesOf): Alert {
  const autoscaler = `{namespace="${of.namespace}",horizontalpodautoscaler=~"(keda-hpa-)?${of.name}"}`;
  const [current, maximum] = ['status_current_replicas', 'spec_max_replicas'].map(
    (what) => `kube_horizontalpodautoscaler_${what}${autoscaler}`,
  );
  return {
    name: 'TritonAtMaximumReplicas',
    severity: 'warning',
    forSeconds: 900,
    expression: `${current} >= ${maximum}`,
    summary: `${of.name} has had {{ $value }} replicas, its maximum, for 15 minutes.`,
  };
}
