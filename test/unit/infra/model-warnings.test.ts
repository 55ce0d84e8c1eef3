import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { modelWarnings } from '../../../infra/model-warnings';
import { readSettings } from '../../../infra/settings';
import { folder, modelYaml, removeFolders, torchScript } from '../../support/model-files';
import { getConfig } from '../../support/registered-stack';

afterEach(removeFolders);

const GIB = 2 ** 30;

/** A model whose trace record has this number of bytes of activations; the model needs four times as many. */
const repository = (activations: number, fields: Record<string, unknown> = {}): string =>
  folder({
    'wide/model.yaml': modelYaml(fields),
    'wide/1/model.pt': torchScript(),
    'wide/1/model.pt.trace.json': JSON.stringify({ activation_bytes: activations }),
  });

const warnings = (values: Record<string, unknown>, directory: string): Promise<string[]> =>
  modelWarnings(readSettings(getConfig('staging', values)), directory);

const POOL = { name: 'small', instanceTypes: ['g5.xlarge', 'g4dn.xlarge'] };
const ON_CPU = { instance_group: [{ kind: 'KIND_CPU' }] };
const GPU_ADVICE = 'set instanceTypes with larger GPUs, or lower instance_group.count or max_batch_size of the models';
const MAIN_ADVICE =
  'raise resources.memoryGiB, lower instance_group.count, or load models one at a time: extraArguments with --model-load-thread-count=1';

test.each<[string, Record<string, unknown>, number, Record<string, unknown>, string[]]>([
  ['models that fit', { gpuNodePools: [POOL] }, GIB, {}, []],
  [
    'a GPU that is too small',
    { gpuNodePools: [POOL] },
    3.75 * GIB,
    {},
    [
      `the models need about 15.6 GiB of each GPU at the peak (wide 15.0 GiB), but g4dn.xlarge (T4) of pool small has 14.9 GiB: ${GPU_ADVICE}`,
    ],
  ],
  ['a larger one', { gpuNodePools: [{ ...POOL, instanceTypes: ['g5.xlarge'] }] }, 3.75 * GIB, {}, []],
  [
    'a pod that is too small',
    {},
    2.25 * GIB,
    ON_CPU,
    [
      `the models need about 9.6 GiB of main memory at the peak (wide 9.0 GiB), but a pod has 8 GiB (resources.memoryGiB): ${MAIN_ADVICE}`,
    ],
  ],
  [
    'an image that cannot serve a model',
    { image: 'tritonserver:26.05-py3', acceptedVulnerabilities: ['CVE-2026-47627'] },
    0,
    { platform: 'torch_aoti', max_batch_size: 8 },
    [
      'wide: max_batch_size is not supported by Triton 26.05, got 8; allowed: 26.06 or newer: use a newer image of Triton, or set max_batch_size: 0',
    ],
  ],
  ['a pod with more memory', { resources: { memoryGiB: 10 } }, 2.25 * GIB, ON_CPU, []],
  [
    'pods without a GPU, where every instance is on the CPU',
    { gpusPerPod: 0, gpuNodePools: [] },
    2.25 * GIB,
    {},
    [expect.stringMatching(/9\.6 GiB of main memory .* 8 GiB/) as string],
  ],
])('modelWarnings for %s', async (_, values, activations, fields, expected) => {
  expect(await warnings(values, repository(activations, fields))).toEqual(expected);
});

/** Two releases, and 64 MiB for the notes of the agent. */
test.each([
  { bytes: GIB / 2 - 40 * 2 ** 20, expected: [] },
  { bytes: GIB / 2, expected: [expect.stringMatching(/^two releases .* 1\.0 GiB of disk, .* is 1, /)] },
])('modelWarnings of the disk for a model of $bytes bytes', async ({ bytes, expected }) => {
  const directory = repository(0, ON_CPU);
  const large = join(directory, 'wide/1/large.bin');
  writeFileSync(large, '');
  truncateSync(large, bytes); // The file takes no space.
  expect(await warnings({ resources: { scratchGiB: 1 } }, directory)).toEqual(expected);
});

const AUTOSCALING = { prometheusUrl: 'http://prometheus:9090', minReplicas: 1, maxReplicas: 4 };
test.each<[delayMs: number, autoscaling: object | undefined, expected: unknown[]]>([
  [25, AUTOSCALING, [expect.stringMatching(/^requests to wide wait up to 25 ms .* is 50, .* to more than 50$/)]],
  [24, AUTOSCALING, []],
  [25, { ...AUTOSCALING, queueMilliseconds: 51 }, []],
  [25, undefined, []],
])('modelWarnings for batches that wait %d ms, autoscaling: %j', async (delayMs, autoscaling, expected) => {
  const batching = { max_batch_size: 4, dynamic_batching: { max_queue_delay_microseconds: 1000 * delayMs } };

  expect(
    await warnings(autoscaling === undefined ? {} : { autoscaling }, repository(0, { ...ON_CPU, ...batching })),
  ).toEqual(expected);
});

test('modelWarnings reports nothing for a checkout without models', async () => {
  expect(await warnings({}, '/nowhere/at/all')).toEqual([]);
});
