import { networkTensor } from '../../src/media/pictures';
import { readImage } from '../../src/media/image';
import { FACE } from '../../src/local/samples';
import { paths } from '../../src/core/paths';
import { joinRows } from '../../src/triton/batches';
import type { Tensor } from '../../src/triton/tensor';
import { compare, inParallel } from './compare';
import { only, withModels } from './local-models';
import { printComparison } from './print';

/** Compares GFPGAN in batches with single requests. */
export async function benchBatching(repetitions: number): Promise<object> {
  return withModels(paths.modelRepository, ['gfpgan', 'infer_face_restoration_v2.1'], async (client, progress) => {
    const face = networkTensor('input__0', 'signed', await readImage(FACE));
    const eight = joinRows(Array<Tensor>(8).fill(face));
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
