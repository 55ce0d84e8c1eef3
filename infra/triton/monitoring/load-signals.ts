import {
  deploymentSeries,
  loadedPods,
  meanMilliseconds,
  podsWithModels,
  rateWindow,
  series,
  sumRate,
  type SeriesOf,
} from './promql';

/** A measure of the load of one replica, which the autoscaler keeps at its goal. */
export interface LoadSignal {
  goal: number;
  /** For the dashboard, with a unit of Grafana. */
  title: string;
  unit: string;
  /** PromQL: the value of each model, for each combination of the labels `by`. No value where it is unknown. */
  ofModels: (by: readonly string[]) => string;
  /** PromQL: the value of each model that the autoscaler follows. It is the goal where `ofModels` is. */
  followed: (by: readonly string[]) => string;
}

/** A mean of fewer requests per second says little. The queue of such a model counts only if it persists. */
const FEWEST_REQUESTS = 0.1;

/** Share of requests that exceeded their time in the queue, above which the queue counts as too long. */
const REJECTED_SHARE = 0.01;

/** How long requests must have waited in a queue from which none was answered. */
const PENDING_WINDOW = '1m';

/**
 * Each instance may compute a batch, and half a batch may wait. One instance is then busy for 70% of the time if it does not
 * batch; several instances for more, because a batch that waits gets the first one that is free.
 */
const WAITING_PERCENT = 50;

/** What a queue says at most: without requests that are lost or pile up, one step at most doubles the replicas. */
const LARGEST_STEP = 2;

/** What requests that are lost or pile up say at most. */
const LARGEST_GROWTH = 4;

/** The signals of an autoscaler. It follows the one that needs more replicas. */
export function loadSignals(
  of: SeriesOf,
  { queueMilliseconds, instancesPerReplica }: { queueMilliseconds: number; instancesPerReplica: number },
): LoadSignal[] {
  // In percent, because KEDA's fallback needs a goal that is a whole number.
  const percent = 100 * instancesPerReplica + WAITING_PERCENT;
  const batches = (by: readonly string[]): string => `100 * ${meanBatchesInFlight(of, by)}`;
  return [
    {
      goal: queueMilliseconds,
      title: 'queue time',
      unit: 'ms',
      ofModels: (by) => queueOfModels(of, queueMilliseconds, [...by, 'model'], (mean) => mean),
      followed: (by) =>
        queueOfModels(of, queueMilliseconds, [...by, 'model'], (mean) => bounded(mean, queueMilliseconds)),
    },
    {
      goal: percent,
      title: 'batches in flight per replica',
      unit: 'percent',
      ofModels: (by) => batches([...by, 'model']),
      followed: (by) => {
        const load = bounded(batches([...by, 'model']), percent);
        return `clamp_max(${load} * ${arrivalsPerAnswer(of, [...by, 'model'])}, ${LARGEST_GROWTH * percent})`;
      },
    },
  ];
}

/**
 * Load grows much faster than the share of time in which instances are busy. This function of it grows nearly as that share
 * does, so the autoscaler's proportional rule leads to the same number of replicas from above and from below. It is the goal
 * at the goal, and approaches LARGEST_STEP times the goal.
 */
function bounded(load: string, goal: number): string {
  return `${LARGEST_STEP * goal} / (1 + ${(LARGEST_STEP - 1) * goal} / (${load}))`;
}

/**
 * Requests that arrive for each one that is answered: more than 1 while a queue grows, and while clients cancel or requests
 * exceed their time in the queue. Triton does not count arrivals. Requests that failed otherwise were computed.
 */
function arrivalsPerAnswer(of: SeriesOf, by: readonly string[]): string {
  const answered = sumRate('nv_inference_request_success', of, by);
  const lost = sumRate('nv_inference_request_failure', of, by, { matchers: ['reason!~"BACKEND|OTHER"'] });
  const growth = `sum by (${by.join(', ')}) (deriv(nv_inference_pending_request_count${series(of)}[${rateWindow(of)}]))`;
  return `(${answered} + ${lost} + ${growth}) / (${answered} > 0)`;
}

/**
 * Mean number of batches in a replica, for each combination of the labels `by`: Little's law. Triton counts a request that
 * it does not batch as an execution, and each request to an ensemble, too.
 */
export function meanBatchesInFlight(of: SeriesOf, by: readonly string[]): string {
  const ofPods = [...new Set([...by, 'pod'])];
  const executions = sumRate('nv_inference_exec_count', of, ofPods);
  const seconds = `${meanMilliseconds('nv_inference_request_duration_us', of, ofPods)} / 1000`;
  return `avg by (${by.join(', ')}) (${executions} * ${seconds})`;
}

/**
 * Mean queue time in milliseconds. Triton adds it when a request was answered, so a queue whose requests are rejected or
 * stay without an answer counts as the largest step.
 */
function queueOfModels(of: SeriesOf, goal: number, by: readonly string[], transform: (mean: string) => string): string {
  const rejected = sumRate('nv_inference_request_failure', of, by, { matchers: ['reason="REJECTED"'] });
  const succeeded = sumRate('nv_inference_request_success', of, by);
  const tooLong = (cases: string): string => `${LARGEST_STEP * goal} * group by (${by.join(', ')}) (${cases})`;
  const pending = `nv_inference_pending_request_count${series(of)}`;
  return [
    tooLong(`${rejected} > ${REJECTED_SHARE} * ${succeeded}`),
    transform(meanMilliseconds('nv_inference_queue_duration_us', of, by, FEWEST_REQUESTS)),
    // A replica that has just started has one sample, and no mean yet.
    tooLong(`min_over_time(${pending}[${PENDING_WINDOW}]) > 0 and ${pending} offset ${PENDING_WINDOW} > 0`),
  ].join(' or ');
}

/**
 * A query of KEDA, which divides the result by the goal to get the number of pods: the signal of each replica, of its model with
 * the highest load, as a mean of the replicas, times the number of replicas that serve. A replica that has models and no requests, for example because clients keep their connections to others, counts as 0.
 * Starting pods are not counted, so waiting for them does not add more. A replica that serves counts also if Prometheus cannot
 * scrape it. The result is 0 without requests, and empty if Prometheus reaches no replica, which KEDA treats as an error and
 * not as an idle server.
 */
export function scalingQuery(of: SeriesOf, { followed }: LoadSignal): string {
  // As a mean of the same time as the signal.
  const available = `avg_over_time(kube_deployment_status_replicas_available${deploymentSeries(of)}[${rateWindow(of)}])`;
  const serving = `max(${available} or ${loadedPods(of)})`;
  return `avg(max by (pod) (${followed(['pod'])}) or 0 * ${podsWithModels(of)}) * ${serving} or 0 * sum(up${series(of)} == 1)`;
}
