import { join } from 'node:path';
import { exportModels } from '../../src/model/export';
import { adaptToThisMachine } from '../../src/local/adapt-model';
import { readRepository, type RepositoryModel } from '../../src/model';
import { paths } from '../../src/core/paths';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { traceModels } from '../../src/local/trace/trace';
import { askModel } from '../../src/release/ask';
import type { TritonHttpClient } from '../../src/triton/http';
import type { Tensor } from '../../src/triton/tensor';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

/** On a fresh clone the models are made first. */
jest.setTimeout(900_000);

const ENSEMBLE = 'ens_face_restoration_v2.1';
const STEPS = ['pre_gfpgan', 'infer_face_restoration_v2.1', 'post_gfpgan'] as const;
const TRACED = [...STEPS, 'gfpgan', 'bert', 'resnet', 'wav2vec_general_v2'];

const scratch = new Scratch();
afterAll(() => scratch.clean());

let models: RepositoryModel[];
let client: TritonHttpClient;

/** Serves the models of this package on one real server. */
beforeAll(async () => {
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  const repository = paths.modelRepository;
  await traceModels({ python, repository, models: TRACED, weights: [], onEvent: () => undefined });
  const read = await readRepository(repository, { models: [ENSEMBLE, ...TRACED] });
  expect(read.problems).toEqual([]);
  ({ models } = read);
  // Only GPUs need a warm-up of every batch size.
  await exportModels(models.map(adaptToThisMachine), join(scratch.directory, 'repository'));
  ({ client } = await testTriton(scratch, join(scratch.directory, 'repository')));
});

// test/python compares the networks with their published implementations.
test.each(TRACED)('%s gives the answers of PyTorch to its golden requests', async (name) => {
  const { served, golden } = models.find((model) => model.name === name) as RepositoryModel;
  expect(golden.length).toBeGreaterThan(0);
  expect(await askModel(client, { name, served }, golden, { zerosWereAnswered: true })).toMatchObject({
    asked: 'golden',
  });
});

test.each([
  [256, 256],
  [301, 407],
])('face restoration answers a picture of %i x %i in its size, as its three steps in order', async (height, width) => {
  const data = Uint8Array.from({ length: height * width * 3 }, (_, index) => (index * 31) % 256);
  const picture: Tensor = { name: 'raw_image', datatype: 'UINT8', shape: [height, width, 3], data };
  const ask = async (model: string, ...inputs: Tensor[]): Promise<Tensor> =>
    (await client.infer(model, inputs)).outputs[0] as Tensor;
  const step = (index: 0 | 1 | 2, ...inputs: Tensor[]): Promise<Tensor> =>
    ask(STEPS[index], ...inputs.map((input, position) => ({ ...input, name: `input__${position}` })));
  const expected = await step(2, await step(1, await step(0, picture)), picture);
  expect(expected.shape).toEqual([height, width, 3]);
  expect(await ask(ENSEMBLE, picture)).toEqual({ ...expected, name: 'image_out' });
});
