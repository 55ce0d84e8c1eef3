/** What tells the series of one server from others: its namespace, and the name of its Service, which is the job's. */
export interface SeriesOf {
  namespace: string;
  name: string;
  /** How often metrics are read, in seconds. */
  scrapeSeconds: number;
}

/** The recording rule that the custom metrics API reads: mean milliseconds that requests of a pod's slowest model waited. */
export const QUEUE_METRIC = 'triton_queue_milliseconds';

/** `{namespace="...",job="..."}`, and what is given besides. */
export function series({ namespace, name }: SeriesOf, ...more: string[]): string {
  return `{${[`namespace="${namespace}"`, `job="${name}"`, ...more].join(',')}}`;
}

/** Enough readings for a rate, even when one is lost. */
function rateWindow({ scrapeSeconds }: SeriesOf): string {
  return `${Math.max(120, 4 * scrapeSeconds)}s`;
}

/** Increase of a counter per second. */
function rate(metric: string, of: SeriesOf): string {
  return `rate(${metric}${series(of)}[${rateWindow(of)}])`;
}

/** The same, added up for each `by`. */
export function sumRate(metric: string, of: SeriesOf, by: readonly string[]): string {
  return `sum by (${by.join(', ')}) (${rate(metric, of)})`;
}

/**
 * Mean milliseconds that a request waited before it was computed, for each `by`; nothing for what got no requests. Both
 * counters count requests, also where Triton makes batches of them.
 */
export function meanQueueMilliseconds(of: SeriesOf, by: readonly string[]): string {
  return meanMilliseconds('nv_inference_queue_duration_us', of, by);
}

/** The mean of one of Triton's durations, in milliseconds per request. */
export function meanMilliseconds(duration: string, of: SeriesOf, by: readonly string[]): string {
  return `${sumRate(duration, of, by)} / 1000 / (${sumRate('nv_inference_request_success', of, by)} > 0)`;
}

/** Servers that answer Prometheus. */
export function servingPods(of: SeriesOf): string {
  return `sum(up${series(of)})`;
}

/** How much of the memory of each GPU is in use, from 0 to 1. */
export function gpuMemoryShare(of: SeriesOf): string {
  return `nv_gpu_memory_used_bytes${series(of)} / nv_gpu_memory_total_bytes${series(of)}`;
}

/** On how many servers each version of a model is loaded. A server with several GPUs has several series of it. */
export function loadedOn(of: SeriesOf): string {
  return `count by (model, version) (count by (pod, model, version) (nv_inference_count${series(of)}))`;
}

/**
 * What KEDA divides by the number of milliseconds wanted to get the number of pods: the queue time of the slowest
 * model, for each pod that serves. Pods that are still starting are not among these, so waiting for them does not bring more;
 * and however long the queue is, one step at most doubles what serves. Without requests it is 0; without any metrics
 * there is no answer, which is an error and not a quiet server.
 */
export function scalingQuery(of: SeriesOf, queueMilliseconds: number): string {
  const queue = `clamp_max(max(${meanQueueMilliseconds(of, ['model'])}), ${2 * queueMilliseconds})`;
  return `${queue} * ${servingPods(of)} or 0 * ${servingPods(of)}`;
}

/** Series of kube-state-metrics about the pods of one server. */
export function podSeries({ namespace, name }: SeriesOf): string {
  return `{namespace="${namespace}",pod=~"${name}-[0-9a-z]+-[0-9a-z]{5}"}`;
}
