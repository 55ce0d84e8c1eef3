/** Identifies the series of one component: its namespace, and the name of its Service, which is also the job. */
export interface SeriesOf {
  namespace: string;
  name: string;
  /** Range of rates; by default one that is long enough even if a scrape is lost. */
  rateWindow?: string;
}

/** A selector `{namespace="...",job="..."}` with further matchers. */
export function series({ namespace, name }: SeriesOf, ...more: string[]): string {
  return `{${[`namespace="${namespace}"`, `job="${name}"`, ...more].join(',')}}`;
}

export function deploymentSeries({ namespace, name }: SeriesOf, ...more: string[]): string {
  return `{${[`namespace="${namespace}"`, `deployment="${name}"`, ...more].join(',')}}`;
}

/** Selects the series of kube-state-metrics about the autoscaler, whose name KEDA chooses. */
export function autoscalerSeries({ namespace, name }: SeriesOf, ...more: string[]): string {
  return `{${[`namespace="${namespace}"`, `horizontalpodautoscaler="keda-hpa-${name}"`, ...more].join(',')}}`;
}

/** Job of the series that Prometheus scrapes through the PodMonitor of the agents, `NAMESPACE/NAME` of that object. */
export function agentSeries({ namespace, name }: SeriesOf): string {
  return `{namespace="${namespace}",job="${namespace}/${name}-agent"}`;
}

export const SCRAPE_SECONDS = 15;

/** Range of rates, in the notation of PromQL. */
export const rateWindow = ({ rateWindow: window = '120s' }: SeriesOf): string => window;

/** What to sum: the series with further matchers, over another window. */
interface RateOptions {
  matchers?: readonly string[];
  window?: string;
}

/** Increases of a counter per second, summed for each combination of the labels `by`. */
export function sumRate(
  metric: string,
  of: SeriesOf,
  by: readonly string[],
  { matchers = [], window = rateWindow(of) }: RateOptions = {},
): string {
  return `sum by (${by.join(', ')}) (rate(${metric}${series(of, ...matchers)}[${window}]))`;
}

/**
 * Mean queue time of a request in milliseconds, for each combination of the labels `by`; no value without requests.
 * Both counters count requests, also where Triton batches them.
 */
export function meanQueueMilliseconds(of: SeriesOf, by: readonly string[]): string {
  return meanMilliseconds('nv_inference_queue_duration_us', of, by);
}

/**
 * The mean of one of Triton's durations, in milliseconds per request.
 * @param above only where more requests per second than this were answered
 */
export function meanMilliseconds(duration: string, of: SeriesOf, by: readonly string[], above = 0): string {
  return `${sumRate(duration, of, by)} / 1000 / (${sumRate('nv_inference_request_success', of, by)} > ${above})`;
}

/** Number of replicas that answer Prometheus. */
export function servingPods(of: SeriesOf): string {
  return `sum(up${series(of)})`;
}

/** One value for each replica that has loaded models. Triton answers before that. */
export function podsWithModels(of: SeriesOf): string {
  return `count by (pod) (nv_inference_count${series(of)})`;
}

/** Number of replicas that have loaded models. No value if there are none. */
export function loadedPods(of: SeriesOf): string {
  return `count(${podsWithModels(of)})`;
}

/** Share of used memory of each GPU, from 0 to 1. */
export function gpuMemoryShare(of: SeriesOf): string {
  return `nv_gpu_memory_used_bytes${series(of)} / nv_gpu_memory_total_bytes${series(of)}`;
}

/**
 * Number of replicas that have loaded each version of a model. A replica with several GPUs has several series of it.
 */
export function loadedOn(of: SeriesOf): string {
  return `count by (model, version) (count by (pod, model, version) (nv_inference_count${series(of)}))`;
}

/** Selector for series of kube-state-metrics about the pods of one component. */
export function podSeries({ namespace, name }: SeriesOf, ...more: string[]): string {
  return `{${[`namespace="${namespace}"`, `pod=~"${name}-[0-9a-z]+-[0-9a-z]{5}"`, ...more].join(',')}}`;
}

/**
 * Share of its memory limit that each container uses, from 0 to 1. The kernel kills a process of a container at 1. Memory that
 * the kernel can free is not included. A restarted container has series of its predecessor for some minutes.
 */
export function memoryShare(of: SeriesOf): string {
  const ofContainers = (metric: string, ...more: string[]): string =>
    `max by (pod, container) (${metric}${podSeries(of, 'container!=""', ...more)})`;
  return `${ofContainers('container_memory_working_set_bytes')} / ${ofContainers('kube_pod_container_resource_limits', 'resource="memory"')}`;
}
