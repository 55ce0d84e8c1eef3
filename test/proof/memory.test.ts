import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exportModels } from '../../src/model/export';
import { zeroInputs } from '../../src/model/golden/zeros';
import { adaptToThisMachine } from '../../src/local/adapt-model';
import { readRepository, serverMemory, type RepositoryModel } from '../../src/model';
import { paths } from '../../src/core/paths';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { traceModels } from '../../src/local/trace/trace';
import { zeroTensor, type Tensor } from '../../src/triton/tensor';
import { getPeakMemory } from '../support/process-memory';
import { Scratch } from '../support/temp-dir';
import { IS_LONG } from '../support/soak';
import { testTriton } from '../support/triton';

/** On a fresh clone the models are made first, and a batch of eight faces takes half a minute on a busy machine. */
jest.setTimeout(3_600_000);

const ENSEMBLE = 'ens_face_restoration_v2.1';
const STEPS = ['pre_gfpgan', 'infer_face_restoration_v2.1', 'post_gfpgan'];
/** One model of each backend; in the long form, all models that can be served without a GPU. */
const MODELS = IS_LONG
  ? ['bert', 'resnet', 'gfpgan', 'wav2vec_general_v2', ...STEPS, ENSEMBLE]
  : ['resnet', 'wav2vec_general_v2'];

const MIB = 2 ** 20;

beforeAll(async () => {
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  const traced = [...new Set([...MODELS.filter((name) => name !== ENSEMBLE), ...(IS_LONG ? STEPS : [])])];
  const repository = paths.modelRepository;
  await traceModels({ python, repository, models: traced, weights: [], onEvent: () => undefined });
});

/** Zeros in all shapes that the trace checked, including the largest batch. For the ensemble, a picture. */
function requests({ config, directory, versions, name }: RepositoryModel): Tensor[][] {
  if (name === ENSEMBLE) return [[zeroTensor('raw_image', 'UINT8', [256, 256, 3])]];
  const record = versions[0]?.files.find(({ key }) => key.endsWith('.trace.json'))?.key ?? '';
  const { check } = JSON.parse(readFileSync(join(directory, record), 'utf8')) as { check: { shapes: number[][][] } };
  return check.shapes.map((shapes) =>
    zeroInputs(config).map((tensor, index) => zeroTensor(tensor.name, tensor.datatype, shapes[index] ?? [])),
  );
}

test.each(MODELS)('the predicted peak memory of %s is within 25% of the measured peak', async (name) => {
  const scratch = new Scratch();
  try {
    const { models, problems } = await readRepository(paths.modelRepository, { models: [name] });
    expect(problems).toEqual([]);
    await exportModels(models.map(adaptToThisMachine), join(scratch.directory, 'repository'));
    const { client, pid } = await testTriton(scratch, join(scratch.directory, 'repository'));
    const model = models.find((one) => one.name === name) as RepositoryModel;
    // Each request twice, because TorchScript optimises a model in the first two calls of a shape.
    for (const request of requests(model).flatMap((inputs) => [inputs, inputs])) await client.infer(name, request);
    const measured = getPeakMemory(pid as number);
    const predicted = serverMemory(models).local;
    const [ours, real] = [predicted, measured].map((bytes) => `${Math.round(bytes / MIB)} MiB`);
    process.stderr.write(`${name}: predicted ${ours}, measured ${real} (${(predicted / measured).toFixed(2)})\n`);
    expect(predicted / measured).toBeGreaterThan(0.75);
    expect(predicted / measured).toBeLessThan(1.25);
  } finally {
    await scratch.clean();
  }
});
