import { failures, successes, testStories, type Story } from '../support/alert-stories';
import { gpuOf, ofModel, ofObject, OTHER, POD, requests, type Series, settingsOf, up } from '../support/series';

/** The Deployment of Triton in kube-state-metrics; values in promtool's notation. It was created long ago. */
const deployment = (of: Record<string, string> = {}): Series[] =>
  ofObject('deployment', 'triton', {
    status_replicas_available: '2x400',
    status_replicas_updated: '2x400',
    spec_replicas: '2x400',
    created: '-1000000x400',
    metadata_generation: '3x400',
    ...of,
  });

/** Whether a condition of the Deployment has a status. */
const condition = (name: 'Progressing' | 'ReplicaFailure', status: boolean, values: string): Series => ({
  series: `kube_deployment_status_condition{namespace="triton",deployment="triton",condition="${name}",status="${status}"}`,
  values,
});

/** A model whose series end after 30 minutes. */
const gone = (pod: string, model: string): Series[] => [
  ofModel('nv_inference_request_success', pod, '0+100x120 stale', model),
  ofModel('nv_inference_count', pod, '0+100x120 stale', model),
];

const ofPod = (metric: string, pod: string, values: string, more = ''): Series => ({
  series: `kube_pod_${metric}{namespace="triton",pod="${pod}"${more}}`,
  values,
});

const workingSet = (container: string, id: string, values: string): Series => ({
  series: `container_memory_working_set_bytes{namespace="triton",pod="${POD}",container="${container}",id="${id}"}`,
  values,
});

/** The memory of a container of Triton, with its id, and of the whole pod. */
const memory = (used: string, id = 'a'): Series[] => [
  workingSet('triton', id, used),
  workingSet('', 'pod', '9e9x400'),
  ofPod('container_resource_limits', POD, '8e9x400', ',container="triton",resource="memory"'),
  ofPod('container_resource_limits', POD, '4x400', ',container="triton",resource="cpu"'),
];

const autoscaler = (current: string, maximum: string): Series[] =>
  ofObject('horizontalpodautoscaler', 'keda-hpa-triton', {
    status_current_replicas: current,
    spec_max_replicas: maximum,
  });

/** Whether the HorizontalPodAutoscaler can compute a number of replicas. */
const scalingInactive = (values: string): Series => ({
  series:
    'kube_horizontalpodautoscaler_status_condition{namespace="triton",horizontalpodautoscaler="keda-hpa-triton",condition="ScalingActive",status="false"}',
  values,
});

/** Failed queries of KEDA, which Prometheus scrapes in the namespace keda. */
const kedaErrors = (values: string, labels = 'namespace="keda",exported_namespace="triton"'): Series => ({
  series: `keda_scaled_object_errors_total{${labels},scaledObject="triton"}`,
  values,
});

const serving = (pod: string): Series[] => [up(pod), ...requests(pod, 100, 5)];

const STORIES: Story[] = [
  // A model that no replica serves.
  {
    story: 'no new replica can load a model that had requests',
    alert: 'TritonModelGone',
    input: [
      ...deployment(),
      up(POD, '1x1000'),
      ofModel('nv_inference_count', POD, '0+100x1000', 'bert'),
      ...gone(OTHER, 'plan'),
    ],
    silent: [29, 32],
    // Hours later the model is still gone.
    fires: [40, 90, 240],
  },
  {
    story: 'a model without requests is deleted',
    alert: 'TritonModelGone',
    input: [
      ...deployment(),
      ...serving(POD),
      ofModel('nv_inference_request_success', POD, '5x120 stale', 'unused'),
      ofModel('nv_inference_count', POD, '5x120 stale', 'unused'),
    ],
    silent: [29, 40, 90],
  },
  {
    story: 'the only replica is replaced, and its agent loads the models after Triton answers',
    alert: 'TritonModelGone',
    input: [
      ...deployment({ spec_replicas: '1x400', status_replicas_available: '1x120 0x40 1x400' }),
      up(POD, '1x120 stale'),
      ...gone(POD, 'bert'),
      up(OTHER, '_x125 1x400'),
      ofModel('nv_inference_count', OTHER, '_x155 0+100x400'),
    ],
    silent: [29, 36, 37, 38, 40, 60],
  },
  {
    story: 'every replica is ready without any model, as with a broken driver',
    alert: 'TritonNoModels',
    input: [
      ...deployment(),
      up(POD),
      ofModel('nv_inference_count', POD, '5x280 stale', 'unused'),
      ofModel('nv_inference_request_success', POD, '5x280 stale', 'unused'),
    ],
    silent: [69, 72],
    fires: [80, 95],
  },
  { story: 'the repository is empty', alert: 'TritonNoModels', input: [...deployment(), up(POD)], silent: [5, 60, 95] },

  // No replica answers.
  {
    story: 'all replicas stop, lose their addresses and return without an answer: one alert without a gap',
    alert: 'TritonDown',
    input: [...deployment({ status_replicas_available: '2x40 0x400' }), up(POD, '1x40 stale'), up(OTHER, '_x60 0x400')],
    silent: [9, 11],
    fires: [13, 15, 15.5, 16, 17, 30],
  },
  {
    story: 'the stack has no replicas on purpose',
    alert: 'TritonDown',
    input: deployment({ spec_replicas: '0x400', status_replicas_available: '0x400' }),
    silent: [5, 60],
  },
  {
    story: 'a new server starts its first pods',
    alert: 'TritonDown',
    input: [...deployment({ created: '0x400', status_replicas_available: '0x400' }), up(POD, '_x10 0x400')],
    silent: [5, 30],
    fires: [50],
  },
  {
    story: 'the only replica is updated',
    alert: 'TritonDown',
    input: [
      ...deployment({ spec_replicas: '1x400', metadata_generation: '3x40 4x400', status_replicas_available: '0x400' }),
      up(POD, '1x40 0x400'),
    ],
    silent: [15, 25],
    fires: [45],
  },
  {
    story: 'the only replica is updated',
    alert: 'TritonNotServing',
    input: deployment({
      spec_replicas: '1x400',
      metadata_generation: '3x40 4x400',
      status_replicas_available: '1x40 0x400',
    }),
    silent: [15, 25],
    fires: [45],
  },
  {
    story: 'the autoscaler changed the Deployment before all replicas stopped',
    alert: 'TritonDown',
    input: [...deployment({ metadata_generation: '3x39 4x400' }), up(POD, '1x40 0x400')],
    fires: [13],
  },
  {
    story: 'the autoscaler removed all but one replica, which stops minutes later',
    alert: 'TritonDown',
    input: [...deployment({ spec_replicas: '2x39 1x400', metadata_generation: '3x39 4x400' }), up(POD, '1x60 0x400')],
    silent: [12],
    fires: [18],
  },

  // Missing replicas.
  {
    story: 'a roll-out replaces twelve pods in place, one after the other',
    alert: 'TritonReplicasMissing',
    input: deployment({
      spec_replicas: '12x400',
      status_replicas_available: '11x288 12x400',
      status_replicas_updated: '1x24 2x24 3x24 4x24 5x24 6x24 7x24 8x24 9x24 10x24 11x24 12x400',
    }),
    silent: [45, 60, 71, 90],
  },
  {
    story: 'one of two pods is lost',
    alert: 'TritonReplicasMissing',
    input: [...deployment({ status_replicas_available: '1x400' }), condition('Progressing', false, '0x400')],
    silent: [35],
    fires: [45],
  },
  {
    story: 'a roll-out is stuck',
    alert: 'TritonReplicasMissing',
    input: [
      ...deployment({ status_replicas_available: '1x400', status_replicas_updated: '1x400' }),
      condition('Progressing', false, '0x100 1x400'),
    ],
    silent: [20],
    fires: [80],
  },
  {
    story: 'seven of eight pods are lost',
    alert: 'TritonCapacityLow',
    input: deployment({ spec_replicas: '8x400', status_replicas_available: '8x40 1x400' }),
    silent: [9, 20],
    fires: [35],
  },
  {
    story: 'a new server starts its first pods',
    alert: 'TritonCapacityLow',
    input: deployment({ created: '0x400', status_replicas_available: '0x400' }),
    silent: [10, 25],
    fires: [90],
  },
  {
    story: 'one of two pods is replaced',
    alert: 'TritonCapacityLow',
    input: deployment({ status_replicas_available: '1x400' }),
    silent: [35, 90],
  },
  {
    story: 'the stack has no replicas on purpose',
    alert: 'TritonCapacityLow',
    input: deployment({ spec_replicas: '0x400', status_replicas_available: '0x400' }),
    silent: [35, 90],
  },

  // Restarts.
  {
    story: 'a container is restarted twice within an hour',
    alert: 'TritonRestarting',
    input: [ofPod('container_status_restarts_total', POD, '5x40 6x40 7x400')],
    silent: [25, 30, 60, 62, 65],
  },
  {
    story: 'a container is restarted three times within an hour',
    alert: 'TritonRestarting',
    input: [ofPod('container_status_restarts_total', POD, '5x40 6x40 7x40 8x400')],
    fires: [40],
  },
  {
    story: 'a pod is evicted, because it filled its disk',
    alert: 'TritonReplicaEvicted',
    input: [ofPod('status_reason', POD, '0x40 1x400', ',reason="Evicted"')],
    silent: [9, 80],
    fires: [11, 60],
  },
  {
    story: 'a pod is drained',
    alert: 'TritonReplicaEvicted',
    input: [ofPod('status_reason', POD, '0x40 stale', ',reason="Evicted"')],
    silent: [9, 11, 60],
  },

  // Memory. The limit of Triton is 8 GB.
  {
    story: 'a container uses more and more memory',
    alert: 'TritonMemoryHigh',
    input: memory('5e9+2e7x160 8.2e9x400'),
    silent: [20, 29, 32],
    fires: [34, 60],
  },
  {
    story: 'a load needs nine tenths of the memory for three minutes',
    alert: 'TritonMemoryHigh',
    input: memory('5e9x40 7.5e9x12 6e9x400'),
    silent: [12, 13, 16, 60],
  },
  {
    story: 'a restarted container needs less memory than its predecessor',
    alert: 'TritonMemoryHigh',
    input: [...memory('7.9e9x8 stale', 'a'), ...memory('_x10 4e9x400', 'b').slice(0, 1)],
    silent: [2, 5, 8, 30],
  },

  // Failed requests.
  {
    story: '0.6% of the requests to an ensemble fail, and Triton counts each twice',
    alert: 'TritonRequestsFailing',
    input: [successes('0+994x400', 'whole'), failures('0+12x400', 'OTHER', 'whole')],
    silent: [10, 30],
  },
  {
    story: '2% of the requests to an ensemble fail',
    alert: 'TritonRequestsFailing',
    input: [successes('0+980x400', 'whole'), failures('0+40x400', 'OTHER', 'whole')],
    fires: [10, 30],
  },
  {
    story: 'clients cancel 2% of their requests',
    alert: 'TritonRequestsFailing',
    input: [successes('0+980x400'), failures('0+20x400', 'CANCELED'), failures('0x400', 'BACKEND')],
    silent: [10, 30],
  },
  {
    story: '2% of the requests exceed their time in the queue',
    alert: 'TritonRequestsFailing',
    input: [successes('0+980x400'), failures('0+20x400', 'REJECTED')],
    fires: [10],
  },
  {
    story: 'every request to a new version fails, and it has 0.5% of the traffic',
    alert: 'TritonRequestsFailing',
    input: [successes('0+9950x400'), successes('0x400', 'bert', '2'), failures('0+50x400', 'BACKEND', 'bert', '2')],
    fires: [10],
  },
  {
    story: 'a model is asked every three minutes, and each request fails',
    alert: 'TritonRequestsFailing',
    input: [successes('0x400'), failures('0+0x11 1+0x11 2+0x11 3+0x11 4+0x11 5+0x11 6+0x11 7+0x11 8+0x11', 'BACKEND')],
    silent: [5, 12],
    fires: [24, 26],
  },
  {
    story: 'four requests to a model with earlier failures fail',
    alert: 'TritonRequestsFailing',
    input: [successes('0x400'), failures('5x20 6 7 8 9x400', 'BACKEND')],
    silent: [24, 27, 32, 33],
  },
  {
    story: 'every fifth request to a model with two requests per minute fails',
    alert: 'TritonRequestsFailing',
    input: [successes('0+1.6x400'), failures('0+0.4x400', 'BACKEND')],
    fires: [30, 60, 90],
  },
  {
    story: 'a stack is scaled up from 0 in the morning',
    alert: 'TritonDown',
    input: [
      ...deployment({ spec_replicas: '0x40 2x400', status_replicas_available: '0x50 2x400' }),
      up(POD, '_x50 1x400'),
    ],
    silent: [13, 15, 18, 30],
  },
  {
    story: 'a stack that was scaled up from 0 does not start',
    alert: 'TritonDown',
    input: deployment({ spec_replicas: '0x40 2x400', status_replicas_available: '0x400' }),
    fires: [60],
  },
  {
    story: 'Kubernetes cannot create one of four pods',
    alert: 'TritonReplicasMissing',
    input: [
      ...deployment({ spec_replicas: '4x400', status_replicas_available: '3x400', status_replicas_updated: '3x400' }),
      condition('ReplicaFailure', true, '1x400'),
    ],
    fires: [60, 90],
  },
  {
    story: 'three requests to a quiet model fail',
    alert: 'TritonRequestsFailing',
    input: [successes('0x400'), failures('0x10 1x6 2x6 3x400', 'BACKEND')],
    silent: [5, 7.5, 8, 8.25, 10],
  },
  {
    story: 'clients give up while the queue is long',
    alert: 'TritonRequestsCanceled',
    input: [...requests(POD, 100, 80), failures('0+20x400', 'CANCELED')],
    fires: [15],
  },
  {
    story: 'clients cancel 2% of their requests, and the queue is short',
    alert: 'TritonRequestsCanceled',
    input: [...requests(POD, 980, 5), failures('0+20x400', 'CANCELED')],
    silent: [15, 60],
  },

  {
    story: 'one request takes seven minutes while others wait',
    alert: 'TritonRequestsStuck',
    input: [
      ofModel('nv_inference_pending_request_count', POD, '0x40 3x27 0x400'),
      ofModel('nv_inference_request_success', POD, '0+10x40 400x27 410+10x400'),
    ],
    silent: [12, 15, 17, 17.5, 20, 30],
  },
  {
    story: 'no request is answered any more',
    alert: 'TritonRequestsStuck',
    input: [
      ofModel('nv_inference_pending_request_count', POD, '0x40 3x400'),
      ofModel('nv_inference_request_success', POD, '0+10x40 400x400'),
    ],
    silent: [17],
    fires: [22, 60],
  },

  // The maximum number of replicas.
  {
    story: 'both limits of the autoscaler are equal, and the load is low',
    alert: 'TritonAtMaximumReplicas',
    input: [...serving(POD), ...autoscaler('8x400', '8x400')],
    silent: [20, 90],
  },
  {
    story: 'the autoscaler keeps its maximum after a peak of six minutes',
    alert: 'TritonAtMaximumReplicas',
    input: [
      up(POD),
      ofModel('nv_inference_request_success', POD, '0+100x400'),
      ofModel('nv_inference_queue_duration_us', POD, '0+20000000x24 480000000+500000x400'),
      ...autoscaler('8x64 3x400', '8x400'),
    ],
    silent: [8, 15.5, 17, 30],
  },
  {
    story: 'one replica sees no GPU',
    alert: 'TritonGpuMissing',
    input: [up(POD), up(OTHER), gpuOf(OTHER)],
    silent: [3],
    fires: [6, 60],
  },
  {
    story: 'every replica that answers sees its GPU, and another one starts',
    alert: 'TritonGpuMissing',
    input: [up(POD), gpuOf(POD), up(OTHER, '0x400')],
    silent: [6, 60],
  },
  {
    story: 'the load exceeds the maximum',
    alert: 'TritonAtMaximumReplicas',
    input: [up(POD), ...requests(POD, 100, 80), ...autoscaler('8x400', '8x400')],
    fires: [20],
  },

  // The autoscaler gets no answer.
  {
    story: 'the adapter of custom metrics stops',
    alert: 'TritonAutoscalerFailing',
    input: [...deployment(), scalingInactive('0x40 1x400')],
    silent: [9, 15],
    fires: [21, 60],
  },
  {
    story: 'Prometheus gives KEDA no answer, and the fallback keeps the autoscaler active',
    alert: 'TritonAutoscalerFailing',
    input: [...deployment(), scalingInactive('0x400'), kedaErrors('0x40 1+2x400')],
    silent: [9, 15],
    fires: [21, 60],
  },
  {
    story: 'Prometheus gives KEDA 2.20 no answer, which counts only requests during the fallback',
    alert: 'TritonAutoscalerFailing',
    input: [
      ...deployment(),
      kedaErrors('0x40 4x400'),
      {
        series:
          'keda_scaler_http_requests_total{namespace="keda",exported_namespace="triton",scaled_resource="triton",status_code="200"}',
        values: '0+2x40 80x400',
      },
      {
        series:
          'keda_scaler_http_requests_total{namespace="keda",exported_namespace="triton",scaled_resource="triton",status_code="error"}',
        values: '_x41 1+2x400',
      },
    ],
    silent: [9, 15],
    fires: [22, 60],
  },
  {
    story: 'KEDA 2.20 queries a Prometheus that does not scrape the replicas, so answers are empty',
    alert: 'TritonAutoscalerFailing',
    input: [
      ...deployment(),
      ...serving(POD),
      {
        series:
          'keda_scaler_http_requests_total{namespace="keda",exported_namespace="triton",scaled_resource="triton",status_code="200"}',
        values: '0+2x400',
      },
      {
        series:
          'keda_scaler_empty_upstream_responses_total{namespace="keda",exported_namespace="triton",scaledResource="triton",ignoreNullValues="false"}',
        values: '0x40 1+2x400',
      },
    ],
    silent: [9, 15],
    fires: [21, 60],
  },
  {
    story: 'Prometheus answers KEDA 2.20',
    alert: 'TritonAutoscalerFailing',
    input: [
      ...deployment(),
      {
        series:
          'keda_scaler_http_requests_total{namespace="keda",exported_namespace="triton",scaled_resource="triton",status_code="200"}',
        values: '0+2x400',
      },
    ],
    silent: [21, 60],
  },
  {
    story: 'Prometheus keeps the namespace that KEDA reports',
    alert: 'TritonAutoscalerFailing',
    input: [...deployment(), kedaErrors('0+2x400', 'namespace="triton"')],
    fires: [21],
  },
  {
    story: 'one query of KEDA fails every hour, and queries of another server fail all the time',
    alert: 'TritonAutoscalerFailing',
    input: [
      ...deployment(),
      scalingInactive('0x400'),
      kedaErrors('0x40 2x240 4x400'),
      kedaErrors('0+2x400', 'namespace="keda",exported_namespace="vision"'),
    ],
    silent: [11, 21, 72, 85],
  },
  {
    story: 'the stack has no replicas on purpose',
    alert: 'TritonAutoscalerFailing',
    input: [...deployment({ spec_replicas: '0x400' }), scalingInactive('1x400'), kedaErrors('0+2x400')],
    silent: [21, 60],
  },
  {
    story: 'a new server starts its first pods',
    alert: 'TritonAutoscalerFailing',
    input: [...deployment({ created: '0x400' }), kedaErrors('0+2x400')],
    silent: [21, 30],
    fires: [60],
  },
];

testStories('stories of alerts', { settings: settingsOf({ slo: undefined }) }, STORIES);
