import { loadSignals, scalingQuery } from '../../infra/triton/monitoring/load-signals';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { RuleTester } from '../support/rule-tester';
import { labels, OF, ofModel, OTHER, POD, requests, up, type Series } from '../support/series';

const BUILD_MS = 30 * 60_000;

/** A Deployment of `available` replicas. */
const available = (count: number): Series => ({
  series: 'kube_deployment_status_replicas_available{namespace="triton",deployment="triton"}',
  values: `${count}x400`,
});

/** Names of `count` pods. */
const pods = (count: number): string[] => Array.from({ length: count }, (_, index) => `triton-6d5f7c9b8-aaa${index}`);

/** Requests of a pod, `count` per 15 s, each of which took `milliseconds`, in batches of `batch` requests. */
const computed = (pod: string, count: number, milliseconds: number, batch = 1, model = 'bert'): Series[] => [
  ...requests(pod, count, 0, model),
  ofModel('nv_inference_request_duration_us', pod, `0+${count * milliseconds * 1000}x400`, model),
  ofModel('nv_inference_exec_count', pod, `0+${count / batch}x400`, model),
];

/** A pod that answers `count` requests of 150 ms per 15 s, while `count` more begin to wait. */
const growing = (pod: string, count: number): Series[] => [
  ...computed(pod, count, 150).filter(({ series }) => !series.startsWith('nv_inference_pending')),
  ofModel('nv_inference_pending_request_count', pod, `0+${count}x400`),
];

const canceled = (pod: string, count: number): Series => ({
  series: `nv_inference_request_failure${labels(pod, ',model="bert",version="1",reason="CANCELED"')}`,
  values: `0+${count}x400`,
});

/** Requests that wait in a model that answers none. */
const stuck = (pod: string, model = 'bert'): Series[] => [
  ofModel('nv_inference_request_success', pod, '500x400', model),
  ofModel('nv_inference_queue_duration_us', pod, '5000x400', model),
  ofModel('nv_inference_count', pod, '500x400', model),
  ofModel('nv_inference_pending_request_count', pod, '50x400', model),
];

const rejected = (pod: string, count: number): Series => ({
  series: `nv_inference_request_failure${labels(pod, ',model="bert",version="1",reason="REJECTED"')}`,
  values: `0+${count}x400`,
});

/** What the autoscaler follows, from the load: the goal at the goal, and up to twice the goal. */
const followed = (load: number, goal: number): number => (2 * goal) / (1 + goal / load);
const rounded = (value: number): number => Math.round(value * 100) / 100;
const queueOf = (milliseconds: number): number => followed(milliseconds, 50);
const batchesOf = (percent: number): number => followed(percent, 150);

interface Story {
  story: string;
  input: Series[];
  /** Values of the queries of KEDA, whose goals are 50 ms and 150% of a batch, to two decimals; undefined for no answer. */
  queue: number | undefined;
  batches: number | undefined;
}

const STORIES: Story[] = [
  { story: 'no metrics', input: [], queue: undefined, batches: undefined },
  {
    story: 'Prometheus reaches no replica, and clients still do',
    input: [available(2), up(POD, '0x400'), up(OTHER, '0x400')],
    queue: undefined,
    batches: undefined,
  },
  { story: 'no requests', input: [available(2), up(POD), up(OTHER)], queue: 0, batches: 0 },
  {
    story: 'loaded models without requests',
    input: [available(2), up(POD), ofModel('nv_inference_count', POD, '0x400')],
    queue: 0,
    batches: 0,
  },
  {
    story: 'Prometheus reaches two of eight replicas, and each is at its goal',
    input: [
      available(8),
      ...pods(2).flatMap((pod) => [up(pod), ...requests(pod, 100, 50)]),
      ...pods(8)
        .slice(2)
        .map((pod) => up(pod, '0x400')),
      ...pods(2).map((pod) => ofModel('nv_inference_request_duration_us', pod, '0+22500000x400')),
      ...pods(2).map((pod) => ofModel('nv_inference_exec_count', pod, '0+100x400')),
    ],
    queue: 8 * 50,
    batches: 8 * 150,
  },
  {
    story: 'the slowest model of two replicas, while others start; kube-state-metrics has no answer',
    input: [
      up(POD),
      up(OTHER),
      up('starting', '0x400'),
      up('downloading'),
      ...requests(POD, 100, 80, 'slow'),
      ...requests(OTHER, 100, 80, 'slow'),
      ...requests(POD, 900, 1, 'quick'),
    ],
    queue: 2 * queueOf(80),
    batches: 0,
  },
  {
    story: 'a very long queue asks for nearly twice the replicas that serve',
    input: [up(POD), up(OTHER), ...requests(POD, 100, 60_000), ...requests(OTHER, 100, 60_000)],
    queue: 2 * queueOf(60_000),
    batches: 0,
  },
  {
    story: 'all requests are stuck',
    input: [available(2), up(POD), up(OTHER), ...stuck(POD), ...stuck(OTHER)],
    queue: 2 * 2 * 50,
    batches: 0,
  },
  {
    story: 'one model is stuck, and another one answers quickly',
    input: [available(2), up(POD), up(OTHER), ...stuck(POD), ...requests(OTHER, 100, 5, 'quick')],
    queue: 2 * 50 + queueOf(5),
    batches: 0,
  },
  {
    story: 'half of the requests exceed their time in the queue, and the others waited for 40 ms',
    input: [available(2), up(POD), up(OTHER), ...requests(POD, 100, 40), rejected(POD, 100)],
    queue: 2 * 2 * 50,
    batches: 0,
  },
  {
    story: 'one of a thousand requests exceeds its time in the queue',
    input: [available(2), up(POD), up(OTHER), ...requests(POD, 1000, 40), rejected(POD, 1)],
    queue: 2 * queueOf(40),
    batches: 0,
  },
  {
    story: 'one request of 300 ms every two minutes',
    input: [
      available(2),
      up(POD),
      ofModel('nv_inference_count', POD, '0x400'),
      ofModel('nv_inference_pending_request_count', POD, '0x400'),
      ofModel('nv_inference_request_success', POD, '7x114 8x400'),
      ofModel('nv_inference_queue_duration_us', POD, '0x114 300000x400'),
    ],
    queue: 0,
    batches: 0,
  },
  {
    // 40 requests/s of 50 ms are 2 requests in flight.
    story: 'requests that are not batched: as many batches as requests are in flight',
    input: [available(3), ...pods(3).flatMap((pod) => [up(pod), ...computed(pod, 600, 50)])],
    queue: 0,
    batches: 3 * batchesOf(200),
  },
  {
    story: 'requests in batches of eight',
    input: [available(3), ...pods(3).flatMap((pod) => [up(pod), ...computed(pod, 600, 50, 8)])],
    queue: 0,
    batches: 3 * batchesOf(200 / 8),
  },
  {
    story: 'a queue grows as fast as requests are answered: twice as many replicas, and those for waiting requests',
    input: [available(2), ...pods(2).flatMap((pod) => [up(pod), ...growing(pod, 150)])],
    queue: 0,
    batches: 2 * 2 * batchesOf(150),
  },
  {
    story: 'clients cancel three times as many requests as are answered',
    input: [available(2), ...pods(2).flatMap((pod) => [up(pod), ...computed(pod, 150, 150), canceled(pod, 450)])],
    queue: 0,
    batches: 2 * 4 * batchesOf(150),
  },
  {
    story: 'clients cancel nearly all requests: no more than four times as many replicas',
    input: [available(2), ...pods(2).flatMap((pod) => [up(pod), ...computed(pod, 150, 150), canceled(pod, 15_000)])],
    queue: 0,
    batches: 2 * 4 * 150,
  },
  {
    story: 'a replica has just started, and requests wait in it',
    input: [
      available(2),
      up(POD),
      ...requests(POD, 100, 5),
      up(OTHER, '_x119 1x400'),
      ofModel('nv_inference_pending_request_count', OTHER, '_x119 9x400'),
    ],
    queue: 2 * queueOf(5),
    batches: 0,
  },
  {
    story: 'clients keep their connections to one of four replicas, as in a HorizontalPodAutoscaler of custom metrics',
    input: [
      available(4),
      ...pods(4).map((pod) => up(pod)),
      ...computed(pods(1)[0] ?? '', 600, 50),
      ...pods(4)
        .slice(1)
        .map((pod) => ofModel('nv_inference_count', pod, '0x400')),
    ],
    queue: 0,
    batches: batchesOf(200),
  },
  {
    story: 'eight instances share a GPU, so nothing waits in Triton',
    input: [available(1), up(POD), ...computed(POD, 150, 800)],
    queue: 0,
    batches: batchesOf(800),
  },
];

describeUnless(whyNoGo(['promtool']), 'queries of the autoscaler', () => {
  const tester = new RuleTester();
  beforeAll(() => tester.install(), BUILD_MS);
  afterAll(() => tester.clean());

  const [queueSignal, batchSignal] = loadSignals(OF, { queueMilliseconds: 50, instancesPerReplica: 1 });
  if (queueSignal === undefined || batchSignal === undefined) throw new Error('a signal is missing');

  const sample = (expr: string, value: number | undefined): object => ({
    expr,
    eval_time: '30m',
    exp_samples: value === undefined ? [] : [{ labels: '{}', value: rounded(value) }],
  });

  test.each(STORIES)('$story', async ({ input, queue, batches }) => {
    const samples = [
      sample(`round(${scalingQuery(OF, queueSignal)}, 0.01)`, queue),
      sample(`round(${scalingQuery(OF, batchSignal)}, 0.01)`, batches),
    ];
    expect(await tester.check({ input_series: input, promql_expr_test: samples })).toBe('');
  });

  /** Values of the recording rules for pods. */
  const recorded = (input: Series[], metric: string, values: Record<string, number>): Promise<string> =>
    tester.check({
      input_series: input,
      promql_expr_test: [
        {
          expr: `round(${metric}, 0.01)`,
          eval_time: '30m',
          exp_samples: Object.entries(values).map(([pod, value]) => ({
            labels: `{job="triton", namespace="triton", pod="${pod}"}`,
            value: rounded(value),
          })),
        },
      ],
    });

  test('the recording rule takes the slowest model of each pod', async () => {
    const input = [...requests(POD, 100, 20, 'slow'), ...requests(POD, 100, 5, 'quick'), ...requests(OTHER, 10, 8)];
    expect(await recorded(input, 'triton_queue_milliseconds', { [OTHER]: queueOf(8), [POD]: queueOf(20) })).toBe('');
  });

  test('a pod without requests has 0, a pod that does not answer has no value, and no pod exceeds twice the goal', async () => {
    const input = [
      up(POD),
      ...computed(POD, 150, 800),
      up(OTHER),
      up('starting', '0x400'),
      up('slow'),
      ...stuck('slow'),
    ];
    expect(await recorded(input, 'triton_queue_milliseconds', { [POD]: 0, [OTHER]: 0, slow: 100 })).toBe('');
    expect(
      await recorded(input, 'triton_batches_in_flight_percent', { [POD]: batchesOf(800), [OTHER]: 0, slow: 0 }),
    ).toBe('');
  });
});
