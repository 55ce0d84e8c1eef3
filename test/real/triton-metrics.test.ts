import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { writeRepository, addingEnsemble, addingModel } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { TEST_CONTROL_KEY, testTriton, type TestTriton } from '../support/triton';
import { until } from '../support/wait-for';
import { SUMMARY_FLAGS, UNUSED_SUMMARIES } from '../../infra/triton/monitoring/latency';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A model of the python backend with these lines as `execute`. */
const program = (...lines: string[]): string => `import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        ${lines.join('\n        ')}
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", r.inputs()[0].as_numpy())]) for r in requests]
`;

const TENSORS = [
  'input { name: "x" data_type: TYPE_FP32 dims: 1 }',
  'output { name: "y" data_type: TYPE_FP32 dims: 1 }',
];

const config = (...lines: string[]): string =>
  ['backend: "python"', 'instance_group { count: 1 kind: KIND_CPU }', ...TENSORS, ...lines].join('\n');

/** A queue with this policy, in front of a model that takes a second for each request. */
const queue = (policy: string): string =>
  config('max_batch_size: 1', `dynamic_batching { default_queue_policy { ${policy} } }`);

const MODELS = ['answers', 'answers_error', 'raises', 'short_queue', 'impatient', 'whole', 'whole_failing'];

const repository = writeRepository(join(scratch.directory, 'repository'), {
  'answers/config.pbtxt': config(),
  'answers/1/model.py': program(),
  'answers_error/config.pbtxt': config(),
  'answers_error/1/model.py': program(
    'return [pb_utils.InferenceResponse([], pb_utils.TritonError("too few samples")) for _ in requests]',
  ),
  'raises/config.pbtxt': config(),
  'raises/1/model.py': program('raise pb_utils.TritonModelException("too many samples")'),
  'short_queue/config.pbtxt': queue('max_queue_size: 1'),
  'short_queue/1/model.py': program('time.sleep(1)'),
  'impatient/config.pbtxt': queue('timeout_action: REJECT default_timeout_microseconds: 1000'),
  'impatient/1/model.py': program('time.sleep(1)'),
  ...addingEnsemble('whole', 'answers'),
  ...addingEnsemble('whole_failing', 'raises'),
});

let server: TestTriton;
beforeAll(async () => {
  server = await testTriton(scratch, repository, { load: MODELS });
});

/** @returns the status of the answer */
async function ask(model: string, shape: number[] = [1]): Promise<number> {
  const data = Array.from({ length: shape.reduce((all, size) => all * size, 1) }, () => 1);
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape, data }] });
  const { status } = await fetch(`${server.httpUrl}/v2/models/${model}/infer`, { method: 'POST', body });
  return status;
}

const withoutZeros = (entries: Iterable<[string, number]>): Record<string, number> =>
  Object.fromEntries([...entries].filter(([, value]) => value > 0));

/** Values of the counters that are not 0. */
async function counters(model: string): Promise<Record<string, number>> {
  const text = await (await fetch(server.metricsUrl)).text();
  const lines = [...text.matchAll(/^nv_inference_(request_success|request_failure|exec_count)\{(.*)\} (\d+)$/gm)];
  const ofModel = lines.filter(([, , labels = '']) => labels.includes(`model="${model}"`));
  const named = ofModel.map(([, metric = '', labels = '', value]): [string, number] => [
    /reason="(\w+)"/.exec(labels)?.[1] ?? metric,
    Number(value),
  ]);
  return withoutZeros(named);
}

/** Triton counts a request after the answer. */
const untilCounted = (model: string, expected: Record<string, number>): Promise<void> =>
  until(`the counters of ${model} are ${JSON.stringify(expected)}`, async () =>
    isDeepStrictEqual(await counters(model), withoutZeros(Object.entries(expected))),
  );

// What the alerts, the autoscaler and the runbook assume about Triton's counters.
describe('Triton counts', () => {
  test.each([
    [
      'an answer with an error of a Python model as a success',
      'answers_error',
      500,
      { request_success: 1, exec_count: 1 },
    ],
    ['an exception of a Python model as a failure of the backend', 'raises', 500, { BACKEND: 1, exec_count: 1 }],
    ['a success of an ensemble once', 'whole', 200, { request_success: 1, exec_count: 1 }],
    ['a failure of an ensemble twice', 'whole_failing', 500, { OTHER: 2 }],
  ])('%s', async (_, model, status, counted) => {
    expect(await ask(model)).toBe(status);
    await untilCounted(model, counted);
  });

  test('no request with a wrong shape', async () => {
    expect(await ask('answers')).toBe(200);
    await until('the request is counted', async () => (await counters('answers'))['request_success'] !== undefined);
    const before = await counters('answers');
    expect(await ask('answers', [2])).toBe(400);
    await untilCounted('answers', before);
  });

  test('no request that a full queue refuses', async () => {
    const statuses = await Promise.all(Array.from({ length: 4 }, () => ask('short_queue', [1, 1])));
    expect(statuses).toContain(503);
    const answered = statuses.filter((status) => status === 200).length;
    await untilCounted('short_queue', { request_success: answered, exec_count: answered });
  });

  test('a request that exceeds its time in the queue as rejected', async () => {
    const statuses = await Promise.all(Array.from({ length: 3 }, () => ask('impatient', [1, 1])));
    const answered = statuses.filter((status) => status === 200).length;
    expect(answered).toBeLessThan(3);
    await untilCounted('impatient', {
      REJECTED: 3 - answered,
      request_success: answered,
      exec_count: answered,
    });
  });
});

test('Triton logs the reason of a refused request at verbose level 1, but not an error that a model answers', async () => {
  const logged = (reason: string): boolean => server.lastLines(200).includes(reason);
  const askBoth = async (): Promise<void> => {
    await ask('answers_error');
    await ask('answers', [2]);
  };
  await askBoth();
  expect(logged('unexpected shape')).toBe(false);
  const { status } = await fetch(`${server.httpUrl}/v2/logging`, {
    method: 'POST',
    headers: { [CONTROL_HEADER]: TEST_CONTROL_KEY },
    body: '{"log_verbose_level":1}',
  });
  expect(status).toBe(200);
  await askBoth();
  await until('the refused request is logged', () => logged('unexpected shape'));
  expect(logged('too few samples')).toBe(false);
});

const SLOW_MS = 50;
const QUANTILES = ['0.5', '0.85', '0.93', '0.95', '0.99'];

test('Triton reports the percentiles of requests of each model and ensemble, with the labels of its counters', async () => {
  const { 'adds/1/model.py': program = '', ...files } = addingModel('adds', { 1: 1 });
  const slow = program.replace('responses = []', `import time; time.sleep(${SLOW_MS / 1000}); responses = []`);
  const { client, metricsUrl } = await testTriton(
    scratch,
    writeRepository(join(scratch.directory, 'repository'), {
      ...files,
      'adds/1/model.py': slow,
      ...addingEnsemble('whole', 'adds'),
      ...addingModel('quiet', { 1: 1 }),
    }),
    { extraArguments: SUMMARY_FLAGS },
  );
  const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(0) } as const;
  for (let sent = 0; sent < 3; sent += 1) await client.infer('whole', [x]);
  const labels = (model: string): string => `{model="${model}",version="1"`;
  const count = (model: string): string => `nv_inference_request_success${labels(model)}} 3`;
  let lines: string[] = [];
  // Triton counts a request after its answer.
  await until('all requests are counted', async () => {
    lines = (await (await fetch(metricsUrl)).text()).split('\n');
    return lines.includes(count('adds')) && lines.includes(count('whole'));
  });
  const durations = (model: string): Record<string, number> => {
    const start = `nv_inference_request_summary_us${labels(model)},quantile="`;
    const found = lines.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length).split('"} '));
    return Object.fromEntries(found.map(([quantile = '', microseconds]) => [quantile, Number(microseconds)]));
  };
  for (const model of ['adds', 'whole']) {
    expect(Object.keys(durations(model)).sort()).toEqual(QUANTILES);
    for (const microseconds of Object.values(durations(model))) {
      expect(microseconds).toBeGreaterThanOrEqual(SLOW_MS * 1000);
    }
  }
  expect(durations('quiet')).toEqual(Object.fromEntries(QUANTILES.map((quantile) => [quantile, NaN])));

  // Prometheus drops the summaries of the parts of a request, and no other series.
  const dropped = new RegExp(`^(${UNUSED_SUMMARIES})$`);
  const metrics = [...new Set(lines.flatMap((line) => /^(nv_\w+)/.exec(line)?.[1] ?? []))];
  const kept = metrics.filter((metric) => !dropped.test(metric));
  expect(kept.filter((metric) => metric.includes('_summary_'))).toEqual([
    'nv_inference_request_summary_us_count',
    'nv_inference_request_summary_us_sum',
    'nv_inference_request_summary_us',
  ]);
  expect(metrics.filter((metric) => dropped.test(metric)).every((metric) => metric.includes('_summary_'))).toBe(true);
});
