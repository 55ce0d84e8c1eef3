import type { Alert } from './alert';
import { FAILURE_KINDS, failureCount, failureShare, FEWEST_FAILURES } from './failures';
import {
  agentSeries,
  deploymentSeries,
  meanQueueMilliseconds,
  memoryShare,
  podSeries,
  series,
  servingPods,
  sumRate,
  type SeriesOf,
} from './promql';
import { DEFAULT_SCALING, type ServerSettings } from '../settings';
import { loadSeconds, podReadySeconds } from '../timeouts';
import { sloAlerts } from './slo';

/** Share of failed or cancelled requests above which an operator must investigate. */
const FAILURE_SHARE = 0.01;

/** Share of its memory limit above which the kernel may soon kill a process of a container. */
const MEMORY_SHARE = 0.9;

/** Share of the desired replicas below which requests are about to fail. */
const CAPACITY_SHARE = 0.5;

/** TritonQueueLong needs a much longer queue than the autoscaler, which should have added replicas before. */
const QUEUE_FACTOR = 4;

/** If every request fails and there is one every three minutes, this window always holds FEWEST_FAILURES. */
const COUNT_WINDOW = '20m';

/** Requests per second above which the short window holds enough of them. */
const FREQUENT = 1;

/** Window for models with few requests. */
const LONG_WINDOW = '15m';

export function alerts(of: SeriesOf, settings: ServerSettings): Alert[] {
  const { queueMilliseconds } = settings.autoscaling ?? DEFAULT_SCALING;
  const deployment = deploymentSeries(of);
  const available = `kube_deployment_status_replicas_available${deployment}`;
  const desired = `kube_deployment_spec_replicas${deployment}`;
  return [
    {
      name: 'TritonDown',
      severity: 'critical',
      forSeconds: 120,
      // Missing metrics are as bad as replicas that do not answer.
      expression: `(${servingPods(of)} or vector(0)) == 0${unlessPlanned(of, settings)}`,
      summary: `No replica of ${of.name} answers Prometheus.`,
    },
    {
      name: 'TritonCapacityLow',
      severity: 'critical',
      forSeconds: podReadySeconds(settings),
      expression: `max(${available}) / max(${desired}) < ${CAPACITY_SHARE}${unlessPlanned(of, settings)}`,
      summary: `Only {{ $value | humanizePercentage }} of the desired replicas of ${of.name} are available.`,
    },
    {
      name: 'TritonModelGone',
      severity: 'critical',
      // A publisher that drains a replica unloads a model before it loads its successor.
      forSeconds: Math.max(300, loadSeconds(settings)),
      // A model that is not loaded has no series, and Triton does not count requests to it.
      expression:
        `sum by (model) (increase(nv_inference_request_success${series(of)}[1d])) > 0` +
        ` unless on (model) nv_inference_count${series(of)}${ifServing(of)}`,
      summary: 'Model {{ $labels.model }} had requests in the last day, and no replica has loaded it any more.',
    },
    {
      name: 'TritonNoModels',
      severity: 'critical',
      forSeconds: Math.max(300, loadSeconds(settings)),
      // An empty repository had no models before, either.
      expression:
        `(${['1h', '1d'].map((age) => `count(nv_inference_count${series(of)} offset ${age})`).join(' or ')})` +
        ` unless on () nv_inference_count${series(of)}${ifServing(of)}`,
      summary: `No replica of ${of.name} has loaded any model.`,
    },
    {
      name: 'TritonReplicaEvicted',
      severity: 'warning',
      forSeconds: 0,
      // Kubernetes keeps an evicted pod, so the alert ends by itself after an hour.
      expression: `${evicted(of)} == 1 unless ${evicted(of)} offset 1h == 1`,
      summary: 'Kubernetes evicted the replica {{ $labels.pod }}.',
    },
    {
      name: 'TritonMemoryHigh',
      severity: 'warning',
      // A model that is loaded needs more for a while.
      forSeconds: 300,
      expression: `${memoryShare(of)} > ${MEMORY_SHARE}`,
      summary:
        'The container {{ $labels.container }} of {{ $labels.pod }} uses {{ $value | humanizePercentage }} of its memory limit.',
    },
    {
      name: 'TritonRequestsFailing',
      severity: 'critical',
      forSeconds: 300,
      expression: requestsFailing(of),
      summary:
        '{{ $value | humanizePercentage }} of the requests to model {{ $labels.model }}' +
        '{{ with $labels.version }} version {{ . }}{{ end }} fail.',
    },
    {
      name: 'TritonRequestsCanceled',
      severity: 'warning',
      forSeconds: 600,
      // Clients that cancel while the queue is short do so on purpose.
      expression:
        `${failureShare(of, { by: ['model'], reasons: ['CANCELED'], weight: 1 })} > ${FAILURE_SHARE}` +
        ` and ${meanQueueMilliseconds(of, ['model'])} > ${queueMilliseconds}`,
      summary: 'Clients cancel {{ $value | humanizePercentage }} of the requests to model {{ $labels.model }}.',
    },
    {
      name: 'TritonQueueLong',
      severity: 'warning',
      forSeconds: 600,
      expression: `${meanQueueMilliseconds(of, ['model'])} > ${QUEUE_FACTOR * queueMilliseconds}`,
      summary: 'Requests to model {{ $labels.model }} wait {{ $value | humanize }} ms before they are computed.',
    },
    {
      name: 'TritonRequestsStuck',
      severity: 'critical',
      // One request may take minutes while others wait for it.
      forSeconds: 600,
      // Pending requests do not contribute to the queue time until they complete.
      expression:
        `sum by (pod, model) (nv_inference_pending_request_count${series(of)}) > 0` +
        ` unless ${sumRate('nv_inference_request_success', of, ['pod', 'model'])} > 0`,
      summary: '{{ $value }} requests to model {{ $labels.model }} wait in pod {{ $labels.pod }}, and none completes.',
    },
    ...sloAlerts(of, settings.monitoring?.slo),
    ...(settings.gpusPerPod > 0 ? [gpusMissing(of, settings)] : []),
    ...agentAlerts(of, settings),
  ];
}

/** An agent reads head.json every 10 s. */
const HEAD_UNREAD_SECONDS = 300;

function agentAlerts(of: SeriesOf, settings: ServerSettings): Alert[] {
  const series = agentSeries(of);
  return [
    {
      name: 'TritonNotServing',
      severity: 'critical',
      forSeconds: 120,
      // Triton answers Prometheus also without models, so TritonDown does not fire.
      expression: `max(kube_deployment_status_replicas_available${deploymentSeries(of)}) == 0${unlessPlanned(of, settings)}`,
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
      forSeconds: podReadySeconds(settings),
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

/** Excludes a stack without desired replicas, a new one whose pods start, and an update of the only replica. */
function unlessPlanned(of: SeriesOf, settings: ServerSettings): string {
  const seconds = podReadySeconds(settings);
  const deployment = deploymentSeries(of);
  const desired = `kube_deployment_spec_replicas${deployment}`;
  return [
    // A stack that was scaled up from 0 starts all its pods.
    `min_over_time(${desired}[${seconds}s]) == 0`,
    `time() - kube_deployment_created${deployment} < ${2 * seconds}`,
    // The autoscaler's changes of the number of replicas are not updates.
    `(${desired} == 1 and changes(kube_deployment_metadata_generation${deployment}[${seconds}s]) > changes(${desired}[${seconds}s]))`,
  ]
    .map((planned) => ` unless on () ${planned}`)
    .join('');
}

/** Limits a case to servers of which a replica answers and is not about to start. */
const ifServing = (of: SeriesOf): string =>
  ` and on () ${servingPods(of)} > 0 unless on () kube_deployment_status_replicas_available${deploymentSeries(of)} == 0`;

const evicted = (of: SeriesOf): string => `kube_pod_status_reason${podSeries(of, 'reason="Evicted"')}`;

function requestsFailing(of: SeriesOf): string {
  return FAILURE_KINDS.map((kind) => {
    // The short window holds too few requests of a model with rare requests.
    const shares = [{ above: FREQUENT }, { window: LONG_WINDOW }].map((options) => failureShare(of, kind, options));
    const count = failureCount(of, kind, COUNT_WINDOW);
    return `((${shares.join(' or ')}) > ${FAILURE_SHARE} and ${count} > ${FEWEST_FAILURES})`;
  }).join(' or ');
}

/** Triton starts without a GPU, for example if its CUDA is too new for the driver of the node, and computes on the CPU. */
function gpusMissing(of: SeriesOf, { gpusPerPod }: ServerSettings): Alert {
  const visible = `count by (pod) (nv_gpu_memory_total_bytes${series(of)})`;
  return {
    name: 'TritonGpuMissing',
    severity: 'critical',
    forSeconds: 300,
    expression: `(${visible} or 0 * max by (pod) (up${series(of)} == 1)) < ${gpusPerPod}`,
    summary: `Triton in {{ $labels.pod }} sees {{ $value }} of ${gpusPerPod} GPUs, and computes on the CPU without one.`,
  };
}
