import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { builder, buildTarget } from '../../../infra/triton/builder';
import { readArguments } from '../../../infra/triton/rules';
import { requireTarget } from '../../../src/agent/devices';
import { exportedPrograms, readRepository } from '../../../src/model';
import type { ExportedProgram } from '../../../src/model/programs';
import { findBuild, storeBuild } from '../../../src/publish/builds';
import { Releases } from '../../../src/publish/releases';
import { MemoryBucket, MemoryStore } from '../../support/memory-store';
import { folder, modelYaml, program, recorded, removeFolders } from '../../support/model-files';
import { publisher } from '../../support/publish';
import { ARGS } from '../../support/render';
import { writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());
afterAll(removeFolders);

const location = { bucket: 'bucket', prefix: 'models' };
const [OLD, NEW] = ['26.11 8.9', '26.12 8.9'];

test('a compiled program is published for the replicas that it was compiled for, and compiled again for others', async () => {
  const yaml = modelYaml({
    platform: 'torch_aoti',
    input: [{ name: 'INPUT__0', data_type: 'TYPE_FP32', dims: [1] }],
    output: [{ name: 'OUTPUT__0', data_type: 'TYPE_FP32', dims: [1] }],
  });
  const repository = writeRepository(join(scratch.directory, 'models'), {
    ...{ 'm/model.yaml': yaml, 'm/1/model.pt2': program('exported') },
    'm/1/model.pt2.trace.json': JSON.stringify({
      ...{ artifact: recorded('1/model.pt2', program('exported')), checked: 'thorough' },
      ...{ max_batch_size: 8, input_dims: [[1]] },
    }),
  });
  const { models } = await readRepository(repository);
  const [exported] = models.flatMap(exportedPrograms) as [ExportedProgram];
  const { store } = new MemoryStore(new MemoryBucket());
  const bucket = { store, location };
  const { publish } = publisher(store, location, repository);
  const build = async (target: string): Promise<void> => {
    const file = join(scratch.directory, 'made.pt2');
    writeFileSync(file, `compiled for ${target}`);
    await storeBuild(bucket, exported, target, { file, bytes: 22, difference: 0, torch: '2.15.0' });
  };
  const released = async () => {
    const { current } = await Releases.read(bucket);
    const { compiled, files = [] } = current?.models['m'] ?? {};
    return [compiled?.['1']?.target, (await store.get(files[0]?.key ?? ''))?.body.toString()];
  };

  await expect(publish({ buildTarget: OLD })).rejects.toMatchObject({
    problems: [{ message: expect.stringContaining(`for its release and processor, ${OLD}`) as string }],
  });
  await build(OLD);
  await build(OLD); // Two builders at a time.
  await publish({ buildTarget: OLD });
  expect(await released()).toEqual([OLD, `compiled for ${OLD}`]);
  await expect(publish()).rejects.toThrow('artifacts are not ready for a stack');

  // The same version, because it is the same program.
  expect(await findBuild(bucket, exported, NEW)).toBeUndefined();
  await expect(publish({ buildTarget: NEW })).rejects.toThrow('artifacts are not ready for a stack');
  await build(NEW);
  await publish({ buildTarget: NEW });
  expect(await released()).toEqual([NEW, `compiled for ${NEW}`]);

  const release = (await Releases.read(bucket)).current ?? { models: {} };
  expect(() => requireTarget(release, OLD)).toThrow(`compiled for other pods than this one (${OLD}): m 1 (${NEW})`);
  for (const target of [NEW, undefined]) requireTarget(release, target);
});

test('other weights beside an ONNX file, and other shapes of its plan, are another program', async () => {
  const digestOf = async (weights: string, plan: string): Promise<string[]> => {
    const files = { '1/model.onnx.data': weights, '1/plan.json': plan };
    const [data, shapes] = Object.entries(files).map(([path, content]) => recorded(path, content));
    const record = {
      artifact: recorded('1/model.onnx', 'onnx'),
      data_files: [data],
      extra_files: [shapes],
      golden: [],
    };
    const root = folder({
      'm/model.yaml': modelYaml({ platform: 'tensorrt_plan' }),
      'm/1/model.onnx': 'onnx',
      'm/1/model.onnx.trace.json': JSON.stringify(record),
      ...Object.fromEntries(Object.entries(files).map(([path, content]) => [`m/${path}`, content])),
    });
    return (await readRepository(root)).models.flatMap(exportedPrograms).map(({ sha256 }) => sha256);
  };
  const [first] = await digestOf('w', '{}');
  expect(first).toMatch(/^[0-9a-f]{64}$/);
  expect(await digestOf('w', '{}')).toEqual([first]);
  for (const other of [await digestOf('v', '{}'), await digestOf('w', '[]')]) expect(other).not.toEqual([first]);
});

test.each([
  ['nvcr.io/nvidia/tritonserver:26.11-py3', 1, ['8.9'], '26.11 8.9', 'nvcr.io/nvidia/pytorch:26.11-py3'],
  [
    'mirror.example/t/tritonserver:26.11-own',
    2,
    ['10.0', '8.6'],
    '26.11 8.6 10.0',
    'mirror.example/t/pytorch:26.11-py3',
  ],
  ['nvcr.io/nvidia/tritonserver:26.11-py3', 0, ['8.9'], '26.11 cpu', 'nvcr.io/nvidia/pytorch:26.11-py3'],
  ['nvcr.io/nvidia/tritonserver:26.11-py3', 1, [], undefined, undefined],
  ['registry.example/serving:7', 1, ['8.9'], undefined, undefined],
])(
  'replicas with image %s, %d GPUs of %j run what is compiled for %s',
  (image, gpusPerPod, gpuCapabilities, target, made) => {
    const settings = readArguments('triton', { ...ARGS, image, gpusPerPod, gpuCapabilities });
    expect(buildTarget(settings)).toBe(target);
    const output = builder(settings);
    expect(output === undefined ? undefined : (JSON.parse(output) as { spec: unknown }).spec).toEqual(
      made === undefined
        ? undefined
        : expect.objectContaining({ containers: [expect.objectContaining({ image: made })] }),
    );
  },
);
