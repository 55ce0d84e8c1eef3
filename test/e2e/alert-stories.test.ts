import { failures, successes, testStories, type Story } from '../support/alert-stories';
import { gpuOf, ofModel, ofObject, OTHER, POD, requests, type Series, settingsOf, up } from '../support/series';

/** The Deployment of Triton in kube-state-metrics; values in promtool's notation. It was created long ago. */
const deployment = (of: Record<string, string> = {}): Series[] =>
  ofObject('deployment', 'triton', {
    status_replicas_available: '2x400',
    spec_replicas: '2x400',
    created: '-1000000x400',
    metadata_generation: '3x400',
    ...of,
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
];

testStories('stories of alerts', settingsOf({ slo: undefined }), '15s', STORIES);
