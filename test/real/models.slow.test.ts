import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { exportModels } from '../../src/model/export';
import { toNumbers } from '../../src/local/sample-requests';
import { adaptToThisMachine } from '../../src/local/adapt-model';
import { readRepository } from '../../src/model';
import { paths } from '../../src/core/paths';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { traceModels } from '../../src/local/trace/trace';
import type { InferOptions } from '../../src/triton/client';
import type { TritonHttpClient } from '../../src/triton/http';
import { decodeTensor, encodeTensor, type Tensor } from '../../src/triton/tensor';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

/** On a fresh clone the models are made first. */
jest.setTimeout(900_000);

const ENSEMBLE = 'ens_face_restoration_v2.1';
const NETWORK = 'infer_face_restoration_v2.1';
const FACES = [0, 1, 2];
/** Width and height of photographs. */
const SIZES = ['300x200', '301x407'];
const REFERENCE = join(__dirname, '..', 'support', 'reference.py');

const scratch = new Scratch();
afterAll(() => scratch.clean());

const references = join(scratch.directory, 'references');
let cases: Record<string, Record<string, { datatype: string; shape: number[]; file: string }>>;
let client: TritonHttpClient;

/** Serves the models of this package on one real server, and computes the expected answers with PyTorch and OpenCV. */
beforeAll(async () => {
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  const models = [ENSEMBLE, 'gfpgan', 'bert', 'resnet', 'wav2vec_general_v2'];
  const traced = ['pre_gfpgan', NETWORK, 'post_gfpgan', ...models.slice(1)];
  await traceModels({
    python,
    repository: paths.modelRepository,
    models: traced,
    weights: [],
    onEvent: () => undefined,
  });
  const repository = await readRepository(paths.modelRepository, { models });
  expect(repository.problems).toEqual([]);
  // Only GPUs need a warm-up of every batch size.
  await exportModels(repository.models.map(adaptToThisMachine), join(scratch.directory, 'repository'));
  mkdirSync(references);
  const [server] = await Promise.all([
    testTriton(scratch, join(scratch.directory, 'repository')),
    exec(python, [REFERENCE, paths.modelRepository, references]),
  ]);
  client = server.client;
  cases = JSON.parse(readFileSync(join(references, 'cases.json'), 'utf8')) as typeof cases;
});

/** A tensor that Python computed, with the name for a request. */
function reference(inCase: string, tensor: string, name = tensor): Tensor {
  const { datatype, shape, file } = cases[inCase]?.[tensor] ?? { datatype: 'none', shape: [], file: '' };
  return decodeTensor(name, datatype, shape, readFileSync(join(references, file)));
}

/** The outputs of a model, in the order of its configuration. */
async function ask(model: string, inputs: readonly Tensor[], options: InferOptions = {}): Promise<Tensor[]> {
  return (await client.infer(model, inputs, options)).outputs;
}

/** The only output of a model with inputs `input__0` and so on. */
async function apply(model: string, ...inputs: Tensor[]): Promise<Tensor> {
  const [output, ...others] = await ask(
    model,
    inputs.map((input, index) => ({ ...input, name: `input__${index}` })),
  );
  expect([output?.name, others]).toEqual(['output__0', []]);
  return output as Tensor;
}

/** Part of a tensor along its first axis. */
function rows(tensor: Tensor, start: number, end: number): Tensor {
  const { name, datatype, shape } = tensor;
  const [length = 0, ...rest] = shape;
  const bytes = encodeTensor(tensor);
  const size = bytes.length / length;
  return decodeTensor(name, datatype, [end - start, ...rest], bytes.subarray(start * size, end * size));
}

/** Joins tensors of shape [1, ...] along the first axis. */
function stack(tensors: readonly Tensor[]): Tensor {
  const [{ name, datatype, shape }] = tensors as [Tensor];
  return decodeTensor(name, datatype, [tensors.length, ...shape.slice(1)], Buffer.concat(tensors.map(encodeTensor)));
}

/** The largest difference of two tensors of the same type and shape, and the fraction of elements that differ. */
function difference(actual: Tensor, expected: Tensor): { largest: number; share: number } {
  expect([actual.datatype, actual.shape]).toEqual([expected.datatype, expected.shape]);
  const others = toNumbers(expected);
  const distances = toNumbers(actual).map((value, i) => Math.abs(value - (others[i] ?? NaN)));
  expect(distances.length).toBeGreaterThan(0);
  return {
    largest: distances.reduce((most, distance) => (distance <= most ? most : distance), 0),
    share: distances.filter((distance) => distance !== 0).length / distances.length,
  };
}

function expectClose(actual: Tensor | undefined, expected: Tensor, within: number): void {
  expect(difference(actual as Tensor, expected).largest).toBeLessThanOrEqual(within);
}

/** The network may sum in another order, which can change the rounding of a pixel between two grey levels. */
function expectSamePicture(actual: Tensor, expected: Tensor): void {
  const { largest, share } = difference(actual, expected);
  expect(largest).toBeLessThanOrEqual(1);
  expect(share).toBeLessThanOrEqual(0.001);
}

async function restore(face: number | string): Promise<Tensor> {
  const [picture] = await ask(ENSEMBLE, [reference(`restoration ${face}`, 'raw_image')]);
  return picture as Tensor;
}

describe('face restoration', () => {
  test.each(FACES)('the ensemble gives the same answer as its three files in PyTorch: face %i', async (face) => {
    const picture = await restore(face);
    expect(picture.name).toBe('image_out');
    expectSamePicture(picture, reference(`restoration ${face}`, 'image_out'));
    // The picture differs from that of another face.
    const other = reference(`restoration ${(face + 1) % FACES.length}`, 'image_out');
    expect(difference(picture, other).share).toBeGreaterThan(0.5);
  });

  test.each(SIZES)('the ensemble restores a photograph of %s in its size', async (size) => {
    const picture = await restore(size);
    const [width, height] = size.split('x').map(Number);
    expect(picture.shape).toEqual([height, width, 3]);
    expectSamePicture(picture, reference(`restoration ${size}`, 'image_out'));
  });

  test('gfpgan restores a batch like the network restores each face', async () => {
    const inputs = await Promise.all(
      FACES.map((face) => apply('pre_gfpgan', reference(`restoration ${face}`, 'raw_image'))),
    );
    const batch = await apply('gfpgan', stack(inputs));
    expect(batch.shape).toEqual([3, 3, 256, 256]);
    for (const face of FACES)
      expectClose(rows(batch, face, face + 1), await apply(NETWORK, inputs[face] as Tensor), 1e-3);
  });
});

describe('bert', () => {
  const CASES = [
    { name: '1 token', states: [1, 1, 384] },
    { name: '17 tokens', states: [1, 17, 384] },
    // The network has 512 positions.
    { name: '600 tokens', states: [1, 512, 384] },
    { name: 'batch of 8', states: [8, 40, 384] },
  ];

  test.each(CASES)('$name gives the states and the embedding of transformers', async ({ name, states }) => {
    const inputs = [reference(`bert ${name}`, 'input__0'), reference(`bert ${name}`, 'input__1')];
    const outputs = await ask('bert', inputs);
    expect(outputs.map((output) => [output.name, output.shape])).toEqual([
      ['output__0', states],
      ['output__1', [states[0], 384]],
    ]);
    for (const output of outputs) expectClose(output, reference(`bert ${name}`, output.name), 1e-4);
  });
});

describe('resnet', () => {
  test('resnet gives the logits of torchvision', async () => {
    expectClose(await apply('resnet', reference('resnet', 'input__0')), reference('resnet', 'output__0'), 1e-3);
  });
});

describe('wav2vec_general_v2', () => {
  const CASES = [
    { sound: '16000 samples', frames: [1, 49, 32] },
    { sound: '5555 samples', frames: [2, 17, 32] },
  ];

  test.each(CASES)('wav2vec gives the logits of PyTorch and ONNX Runtime for $sound', async ({ sound, frames }) => {
    const [logits] = await ask('wav2vec_general_v2', [reference(`wav2vec ${sound}, PyTorch`, 'input_values')]);
    expect(logits).toMatchObject({ name: 'logits', shape: frames });
    expectClose(logits, reference(`wav2vec ${sound}, PyTorch`, 'logits'), 1e-3);
    expectClose(logits, reference(`wav2vec ${sound}, ONNX Runtime`, 'logits'), 1e-4);
  });
});
