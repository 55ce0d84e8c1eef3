import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { selectModels, type LocalSelection } from '../../../src/local/selection';
import { readValidModels } from '../../../src/local/valid-models';
import { addingEnsemble, addingModel, writeRepository } from '../../support/repository';

const repository = mkdtempSync(join(tmpdir(), 'selection-test-'));
afterAll(() => rmSync(repository, { recursive: true, force: true }));

const tensors = (type: string): string =>
  `input { name: "x" data_type: ${type} dims: -1 }\noutput { name: "y" data_type: TYPE_FP32 dims: -1 }\n`;

writeRepository(repository, {
  ...addingModel('adds', { 1: 10 }),
  ...addingEnsemble('on_adds', 'adds'),
  ...addingEnsemble('on_on_plan', 'on_plan'),
  ...addingEnsemble('on_plan', 'plan'),
  'plan/config.pbtxt': `platform: "tensorrt_plan"\n${tensors('TYPE_FP32')}`,
  'bare/config.pbtxt': 'platform: "onnxruntime_onnx"',
  'ragged/config.pbtxt': `platform: "onnxruntime_onnx" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }
output { name: "y" data_type: TYPE_FP32 dims: -1 }`,
  'remembers/config.pbtxt': `platform: "onnxruntime_onnx" ${tensors('TYPE_FP32')}
sequence_batching { direct {} state { input_name: "s" output_name: "t" data_type: TYPE_FP32 dims: 2 } }`,
  'text/config.pbtxt': `platform: "onnxruntime_onnx"\n${tensors('TYPE_STRING')}`,
  ...addingModel('newer', { 1: 1 }),
  'newer/requirements.txt': 'numpy>=2.1\n',
  'words/config.pbtxt': `backend: "python"\n${tensors('TYPE_STRING')}`,
});

const select = async (...models: string[]): Promise<LocalSelection> =>
  selectModels(await readValidModels(repository, { ...(models.length === 0 ? {} : { models }), artifacts: false }));

test('selectModels gives a reason for each model that cannot be served, and for its ensembles', async () => {
  const { served, notServed } = await select();
  expect(served.map(({ name }) => name)).toEqual(['adds', 'on_adds', 'words']);
  expect(notServed.map(({ model, reason }) => [model.name, reason])).toEqual([
    [
      'bare',
      'its configuration lacks inputs or outputs, and the local replacement for its backend does not read them from the model file',
    ],
    ['newer', 'its requirements.txt requires NumPy 2, but the local server (Triton 2.51) supports only NumPy 1'],
    ['on_on_plan', 'it needs on_plan, which is not served here'],
    ['on_plan', 'it needs plan, which is not served here'],
    ['plan', 'a TensorRT plan runs only on the GPU type that built it'],
    [
      'ragged',
      'it has ragged batches or batch inputs and outputs, which the local replacement for its backend does not support',
    ],
    [
      'remembers',
      'it keeps state between requests (sequence_batching.state), which the local replacement for its backend does not support',
    ],
    ['text', 'it has string inputs, which the local replacement for its backend does not support'],
  ]);
});

test('selectModels adds the models that a selected ensemble needs', async () => {
  const { served } = await select('on_adds');
  expect(served.map(({ name }) => name)).toEqual(['adds', 'on_adds']);
});

test('selectModels throws with every reason if no model can be served', async () => {
  await expect(select('on_plan', 'text')).rejects.toThrow(
    /none of these models can be served here[\s\S]*plan: a TensorRT plan[\s\S]*text: it has string inputs/,
  );
});

test('selectModels reports the problems of configurations', async () => {
  await expect(select('plans')).rejects.toMatchObject({
    problems: [{ message: 'has no model "plans"', hint: 'did you mean plan?' }],
  });
});
