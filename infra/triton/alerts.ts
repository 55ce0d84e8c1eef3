import {
  gpuMemoryShare,
  loadedOn,
  meanQueueMilliseconds,
  podSeries,
  series,
  servingPods,
  sumRate,
  type SeriesOf,
} from './queries';

/** What alerts are decided by, besides the series. */
export interface AlertLimits {
  /** Of the mean time in a queue. */
  queueMilliseconds: number;
  /** Whether there is an autoscaler, which may be at its end. */
  autoscaled: boolean;
  /** Whether the pods have GPUs. */
  gpus: boolean;
  /** From "wanted" to "ready" of a pod. */
  podReadySeconds: number;
}

/** One alert; docs/operations.md has a section of its name. */
export interface Alert {
  name: string;
  /** `critical`: requests fail or are about to, wake somebody. `warning`: look at it today. */
  severity: 'critical' | 'warning';
  /** How long it has to be so. */
  forSeconds: number;
  /** PromQL; what it yields are the cases. */
  expression: string;
  /** One line, with the labels of the case. */
  summary: string;
}

/** Above this share of failed requests somebody has to look. */
const FAILURE_SHARE = 0.01;

/** When the memory of a GPU counts as full. Frameworks keep what they once took, so it does not go down by itself. */
const GPU_MEMORY_SHARE = 0.95;

/** A queue that alerts is well beyond the one that brings more pods. */
const QUEUE_FACTOR = 4;

/** What may go wrong with the server `of`. */
export function alerts(of: SeriesOf, limits: AlertLimits): Alert[] {
  const deployment = `{namespace="${of.namespace}",deployment="${of.name}"}`;
  return [
    {
      name: 'TritonDown',
      severity: 'critical',
      forSeconds: 120,
      // Nothing to be seen is as bad as nothing that answers.
      expression: `${servingPods(of)} == 0 or absent(up${series(of)})`,
      summary: `No server of ${of.name} answers Prometheus.`,
    },
    {
      name: 'TritonReplicasMissing',
      severity: 'warning',
      // A machine, the image and the models take that long when all is well.
      forSeconds: 2 * limits.podReadySeconds,
      expression: `kube_deployment_status_replicas_available${deployment} < kube_deployment_spec_replicas${deployment}`,
      summary: `${of.name} has {{ $value }} replicas that serve, fewer than it should have.`,
    },
    {
      name: 'TritonRestarting',
      severity: 'warning',
      forSeconds: 0,
      expression: `increase(kube_pod_container_status_restarts_total${podSeries(of)}[1h]) > 2`,
      summary: 'The server in pod {{ $labels.pod }} was restarted {{ $value | humanize }} times in an hour.',
    },
    {
      name: 'TritonUnschedulable',
      severity: 'warning',
      forSeconds: 900,
      expression: `sum by (pod) (kube_pod_status_unschedulable${podSeries(of)}) > 0`,
      summary: 'There is no node for pod {{ $labels.pod }}.',
    },
    {
      name: 'TritonModelsDiffer',
      severity: 'warning',
      forSeconds: 900,
      // A model has series from when it is loaded: each server that answers ought to have the same ones.
      expression: `${loadedOn(of)} < on () group_left () ${servingPods(of)}`,
      summary:
        'Model {{ $labels.model }} version {{ $labels.version }} is loaded on {{ $value }} servers, but not on all.',
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
      // Those that wait do not show in the queue time before they are through.
      expression:
        `sum by (pod, model) (nv_inference_pending_request_count${series(of)}) > 0` +
        ` unless ${sumRate('nv_inference_request_success', of, ['pod', 'model'])} > 0`,
      summary:
        '{{ $value }} requests to model {{ $labels.model }} wait in pod {{ $labels.pod }}, and none gets through.',
    },
    ...(limits.gpus ? [gpuMemory(of)] : []),
    ...(limits.autoscaled ? [atMaximum(of)] : []),
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
  const autoscaler = `{namespace="${of.namespace}",horizontalpodautoscaler="${of.name}"}`;
  const [current, maximum] = ['status_current_replicas', 'spec_max_replicas'].map(
    (what) => `kube_horizontalpodautoscaler_${what}${autoscaler}`,
  );
  return {
    name: 'TritonAtMaximumReplicas',
    severity: 'warning',
    forSeconds: 900,
    expression: `${current} >= ${maximum}`,
    summary: `${of.name} has {{ $value }} replicas, the most it may have, for 15 minutes.`,
  };
}
