import type { TritonServerArgs } from '../../infra/triton/args';
import { withDefaults } from '../../infra/triton/settings';
import { ARGS } from './render';

/** A time series with one value per 15 s, from minute 0. */
export interface Series {
  series: string;
  values: string;
}

/** Names that Kubernetes could give to pods of the Deployment `triton`. */
export const POD = 'triton-6d5f7c9b8-x2x4z';
export const OTHER = 'triton-6d5f7c9b8-abcde';

/** The series of the server in all rules. */
export const OF = { namespace: 'triton', name: 'triton', scrapeSeconds: 15 };

/** Labels of a series that Prometheus scrapes from a pod. */
export const labels = (pod: string, more = ''): string => `{namespace="triton",job="triton",pod="${pod}"${more}}`;

export const up = (pod: string, values = '1x400'): Series => ({ series: `up${labels(pod)}`, values });

/** Series of kube-state-metrics about an object: metric without `kube_KIND_` -> values in promtool's notation. */
export const ofObject = (
  kind: 'deployment' | 'horizontalpodautoscaler',
  name: string,
  values: Record<string, string>,
): Series[] =>
  Object.entries(values).map(([metric, of]) => ({
    series: `kube_${kind}_${metric}{namespace="triton",${kind}="${name}"}`,
    values: of,
  }));

/** The GPU that a pod sees. */
export const gpuOf = (pod: string): Series => ({
  series: `nv_gpu_memory_total_bytes${labels(pod, `,gpu_uuid="GPU of ${pod}"`)}`,
  values: '24e9x400',
});

export const ofModel = (metric: string, pod: string, values: string, model = 'bert', version = '1'): Series => ({
  series: `${metric}${labels(pod, `,model="${model}",version="${version}"`)}`,
  values,
});

/** Series of `count` requests per 15 s, each of which waited for `milliseconds`. */
export const requests = (pod: string, count: number, milliseconds: number, model = 'bert'): Series[] => [
  ofModel('nv_inference_request_success', pod, `0+${count}x400`, model),
  ofModel('nv_inference_queue_duration_us', pod, `0+${count * milliseconds * 1000}x400`, model),
  ofModel('nv_inference_request_failure', pod, '0x400', model),
  ofModel('nv_inference_count', pod, `0+${count}x400`, model),
  ofModel('nv_inference_pending_request_count', pod, '0x400', model),
];

/** Settings of a server with an autoscaler and objectives, so that all rules exist. */
export const settingsOf = (more: Partial<TritonServerArgs> = {}): ReturnType<typeof withDefaults> =>
  withDefaults('triton', {
    ...ARGS,
    autoscaling: { kind: 'keda', minReplicas: 2, maxReplicas: 8 },
    monitoring: {},
    slo: { p99Milliseconds: 100, errorRate: 0.001 },
    ...more,
  });
