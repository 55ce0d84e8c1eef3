import { gpuMemoryFault, mainMemoryFault, memoryAdvice, readRepository, serverMemory } from '../../../src/model';
import type { RepositoryModel } from '../../../src/model';
import { folder, modelYaml, removeFolders, torchScript } from '../../support/model-files';

afterEach(removeFolders);

const MIB = 2 ** 20;
const GIB = 2 ** 30;

/** The model with files of this size, which are not written, and the trace record of version 2. */
async function model(
  bytes: number,
  fields: Record<string, unknown> = {},
  record = '{"activation_bytes": 100}',
): Promise<RepositoryModel> {
  const root = folder({
    'm/model.yaml': modelYaml(fields),
    'm/1/model.pt': torchScript(),
    'm/2/model.pt': torchScript(),
    'm/2/model.pt.trace.json': record,
  });
  const [read] = (await readRepository(root)).models;
  if (read === undefined) throw new Error('the model was not read');
  const versions = read.versions.map((version) => ({
    ...version,
    files: version.files.map((file) => ({ ...file, bytes })),
  }));
  return { ...read, versions };
}

const CPU = [{ kind: 'KIND_CPU', count: 2 }];
const TORCH = 292 * MIB;
const BLAS = 32 * MIB;

// Of version 2: 1000 bytes of weights and 400 for activations; of version 1, without a record: weights alone.
test.each([
  ['one instance of the newest version', {}, true, { local: TORCH + 1400, main: 3000, gpu: 1400 + BLAS }],
  [
    'two versions',
    { version_policy: { all: {} } },
    true,
    { local: 2 * TORCH + 2400, main: 6000, gpu: 2400 + 2 * BLAS },
  ],
  [
    'three instances',
    { instance_group: [{ kind: 'KIND_GPU', count: 3 }] },
    true,
    { local: TORCH + 1400, main: 9000, gpu: 3 * (1400 + BLAS) },
  ],
  ['instances on the CPU', { instance_group: CPU }, true, { local: TORCH + 1400, main: 6000, gpu: 0 }],
  [
    'both',
    { instance_group: [...CPU, { kind: 'KIND_GPU' }] },
    true,
    { local: 2 * (TORCH + 1400), main: 9000, gpu: 1400 + BLAS },
  ],
  ['pods without a GPU', {}, false, { local: TORCH + 1400, main: 3000, gpu: 0 }],
])('serverMemory counts %s', async (_, fields, hasGpu, expected) => {
  expect(serverMemory([await model(1000, fields)], hasGpu).models).toMatchObject([{ name: 'm', ...expected }]);
});

test.each([
  ['onnxruntime_onnx', { local: 22 * MIB + 2000, main: 2000, gpu: 1400 + BLAS }],
  ['tensorrt_plan', { local: 0, main: 1000, gpu: 1400 + BLAS }],
  ['python', { local: 30 * MIB + 1400, main: 30 * MIB + 1400, gpu: 0 }],
])('serverMemory counts the copies of %s', async (platform, expected) => {
  expect(serverMemory([{ ...(await model(1000)), platform }]).models).toMatchObject([expected]);
});

test('serverMemory counts activations instead of the copies of the weights if they are larger', async () => {
  const one = { ...(await model(1000, {}, '{"activation_bytes": 1000}')), platform: 'onnxruntime_onnx' };
  expect(serverMemory([one]).models).toMatchObject([{ local: 22 * MIB + 5000 }]);
  expect(serverMemory([one], false).models).toMatchObject([{ main: 5000 }]);
});

test.each(['{', 'null', '{}', '{"activation_bytes": "many"}', '{"activation_bytes": -1}'])(
  'the trace record %s has no activations',
  async (record) => {
    expect(serverMemory([await model(1000, {}, record)]).models).toMatchObject([
      { weights: 1000, activations: undefined, gpu: 1000 + BLAS },
    ]);
  },
);

test('serverMemory counts the server, its libraries and CUDA once', async () => {
  const [one, cpu] = [await model(1000), await model(1000, { instance_group: CPU })];
  const libraries = (45 + 255) * MIB;
  expect(serverMemory([one, one])).toMatchObject({
    local: libraries + 2 * (TORCH + 1400),
    main: libraries + TORCH + 123 * MIB + 6000,
    gpu: 621 * MIB + 2 * (1400 + BLAS),
  });
  expect(serverMemory([cpu])).toMatchObject({ main: libraries + TORCH + 6000, gpu: 0 });
  expect(serverMemory([{ ...one, platform: 'ensemble' }])).toEqual({
    models: [],
    local: 45 * MIB,
    main: 45 * MIB,
    gpu: 0,
  });
});

test('faults and the hint name the models, the figures, the limit and the setting', async () => {
  const memory = serverMemory([await model(2 * GIB), await model(0.5 * GIB)]);
  expect(memoryAdvice(memory)).toMatchObject([
    {
      message:
        'the models need about 8.2 GiB of main memory at the peak (m 6.0 GiB, m 1.5 GiB), but a pod has 8 GiB (resources.memoryGiB)',
      hint: expect.stringMatching(/^raise resources\.memoryGiB, /) as string,
    },
  ]);
  expect(mainMemoryFault(memory, 9)).toBeUndefined();
  expect(gpuMemoryFault(memory, 'a T4', 2 * GIB)).toBe(
    'the models need about 3.2 GiB of each GPU at the peak (m 2.0 GiB, m 0.5 GiB), but a T4 has 2.0 GiB',
  );
  expect(gpuMemoryFault(memory, 'a T4', 4 * GIB)).toBeUndefined();
  expect(memoryAdvice(serverMemory([await model(GIB)]))).toEqual([]);
});

test('memoryAdvice assumes the memory that a pod has by default', async () => {
  const { TRITON_FIELDS } = await import('../../../infra/settings/triton-fields');
  const [advice] = memoryAdvice(serverMemory([await model(1e12)]));
  expect(advice?.message).toContain(`a pod has ${TRITON_FIELDS.resources.fields.memoryGiB.default} GiB`);
});
