import { memoryAdvice, readRepository, weightMemory } from '../../../scripts/lib/model';
import type { RepositoryModel } from '../../../scripts/lib/model';
import { folder, modelYaml, removeFolders, torchScript } from './helpers';

afterEach(removeFolders);

/** The model with files of this size, which are not written. */
async function model(bytes: number, fields: Record<string, unknown> = {}): Promise<RepositoryModel> {
  const root = folder({
    'm/model.yaml': modelYaml(fields),
    'm/1/model.pt': torchScript(),
    'm/2/model.pt': torchScript(),
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

test.each([
  ['one instance of the newest version', {}, { gpu: 10, main: 0, loading: 30 }],
  ['two versions', { version_policy: { all: {} } }, { gpu: 20, main: 0, loading: 60 }],
  ['three instances', { instance_group: [{ kind: 'KIND_GPU', count: 3 }] }, { gpu: 30, main: 0, loading: 90 }],
  ['instances on the CPU', { instance_group: CPU }, { gpu: 0, main: 20, loading: 60 }],
  ['both', { instance_group: [...CPU, { kind: 'KIND_GPU' }] }, { gpu: 10, main: 20, loading: 90 }],
])('weightMemory counts %s', async (_, fields, expected) => {
  expect(weightMemory([await model(10, fields)])).toEqual(expected);
});

test.each([
  ['onnxruntime_onnx', { gpu: 10, main: 0, loading: 20 }],
  ['tensorrt_plan', { gpu: 10, main: 0, loading: 10 }],
  ['python', { gpu: 0, main: 10, loading: 10 }],
])('weightMemory counts the copies of %s', async (platform, expected) => {
  expect(weightMemory([{ ...(await model(10)), platform }])).toEqual(expected);
});

test('memoryAdvice names what a pod would need', async () => {
  const GIB = 2 ** 30;
  expect(memoryAdvice([await model(2 * GIB), await model(0.5 * GIB)])).toEqual([]);
  expect(memoryAdvice([await model(2 * GIB), await model(GIB)])).toMatchObject([
    { message: expect.stringMatching(/^take up to 9\.0 GiB of main memory .* a pod has 8 GiB unless/) as string },
  ]);
});

test('memoryAdvice assumes the memory that a pod has by default', async () => {
  const { DEFAULTS } = await import('../../../infra/triton/defaults');
  const [advice] = memoryAdvice([await model(1e12)]);
  expect(advice?.message).toContain(`a pod has ${DEFAULTS.resources.memoryGiB} GiB`);
});
