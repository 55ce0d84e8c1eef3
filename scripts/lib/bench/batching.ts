import { normalizedTensor, readImage } from '../local/image';
import { FACE } from '../local/samples';
import { paths } from '../paths';
import type { Tensor } from '../triton/tensor';
import { compare, inParallel } from './compare';
import { only, withModels } from './local-models';
import { printComparison } from './print';

/** GFPGAN in batches against one by one. */
export async function benchBatching(repetitions: number): Promise<object> {
  return withModels(paths.modelRepository, ['gfpgan', 'infer_face_restoration_v2.1'], async (client, progress) => {
    const face = normalizedTensor('input__0', await readImage(FACE));
    const eight = repeat(face, 8);
    const contestants = [
      {
        name: 'infer_face_restoration_v2.1: 8 requests, one after the other',
        units: 8,
        run: () => inParallel(8, 1, () => only(client, 'infer_face_restoration_v2.1', face)),
      },
      {
        name: 'infer_face_restoration_v2.1: 8 requests at once',
        units: 8,
        run: () => inParallel(8, 8, () => only(client, 'infer_face_restoration_v2.1', face)),
      },
      {
        name: 'gfpgan: 8 requests at once, batched by Triton',
        units: 8,
        run: () => inParallel(8, 8, () => only(client, 'gfpgan', face)),
      },
      {
        name: 'gfpgan: one request of 8 images',
        units: 8,
        run: async () => {
          await only(client, 'gfpgan', eight);
        },
      },
    ];
    const title = 'images a second';
    const results = await progress.run(title, (step) =>
      compare(contestants, repetitions, (round) => step.update(`round ${round}`)),
    );
    printComparison(title, results);
    return { repetitions, results };
  });
}

/** The same FP32 image several times, along the batch axis. */
function repeat(image: Tensor, times: number): Tensor {
  const one = image.data as Float32Array;
  const data = new Float32Array(one.length * times);
  for (let i = 0; i < times; i += 1) data.set(one, i * one.length);
  return { name: image.name, datatype: 'FP32', shape: [times, ...image.shape.slice(1)], data };
}
