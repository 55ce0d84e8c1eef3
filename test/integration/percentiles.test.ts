import { join } from 'node:path';
import { SUMMARY_FLAGS, UNUSED_SUMMARIES } from '../../infra/triton/monitoring/latency';
import { addingEnsemble, addingModel, writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

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
  const lines = (await (await fetch(metricsUrl)).text()).split('\n');
  const labels = (model: string): string => `{model="${model}",version="1"`;
  const durations = (model: string): Record<string, number> => {
    const start = `nv_inference_request_summary_us${labels(model)},quantile="`;
    const found = lines.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length).split('"} '));
    return Object.fromEntries(found.map(([quantile = '', microseconds]) => [quantile, Number(microseconds)]));
  };
  for (const model of ['adds', 'whole']) {
    expect(lines).toContain(`nv_inference_request_success${labels(model)}} 3`);
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
