import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pixelTensor, readImage } from '../../src/media/image';
import { FACE } from '../../src/local/samples';
import { paths } from '../../src/core/paths';
import type { Tensor } from '../../src/triton/tensor';
import { compare, inParallel, type Comparison } from './compare';
import { only, withModels } from './local-models';
import { printComparison } from './print';

/** Pre- and postprocessing without the network, to measure the serving overhead alone. */
const WITHOUT_NETWORK = `platform: ensemble
input: [{ name: raw_image, data_type: TYPE_UINT8, dims: [-1, -1, 3] }]
output: [{ name: image_out, data_type: TYPE_UINT8, dims: [-1, -1, 3] }]
version_policy: { specific: { versions: [1] } }
ensemble_scheduling:
  step:
    - { model_name: pre_gfpgan, model_version: -1, input_map: { input__0: raw_image }, output_map: { output__0: preprocessed } }
    - { model_name: post_gfpgan, model_version: -1, input_map: { input__0: preprocessed, input__1: raw_image }, output_map: { output__0: image_out } }
`;

/** Compares the ensemble with a client that calls its steps one by one, with and without the network. */
export async function benchEnsemble(repetitions: number): Promise<object> {
  const repository = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  try {
    const ensembles = { whole: 'ens_face_restoration_v2.1', without: 'ens_without_network' };
    for (const name of ['pre_gfpgan', 'infer_face_restoration_v2.1', 'post_gfpgan', ensembles.whole]) {
      cpSync(join(paths.modelRepository, name), join(repository, name), { recursive: true });
    }
    mkdirSync(join(repository, ensembles.without, '1'), { recursive: true });
    writeFileSync(join(repository, ensembles.without, 'model.yaml'), WITHOUT_NETWORK);
    writeFileSync(join(repository, ensembles.without, '1', '.keep'), 'An ensemble has no file.\n');
    return await withModels(repository, undefined, async (client, progress) => {
      const pixels = pixelTensor('raw_image', await readImage(FACE));
      const through = async (models: readonly string[]): Promise<void> => {
        let tensor: Tensor = pixels;
        for (const model of models) {
          const others = model === 'post_gfpgan' ? [{ ...pixels, name: 'input__1' }] : [];
          tensor = await only(client, model, { ...tensor, name: 'input__0' }, ...others);
        }
      };
      const results: Record<string, Comparison[]> = {};
      const measure = async (
        title: string,
        images: number,
        clients: number,
        steps: readonly string[],
        ensemble: string,
      ) => {
        const contestant = (name: string, work: () => Promise<unknown>) => ({
          name,
          units: images,
          run: () => inParallel(images, clients, work),
        });
        const contestants = [
          contestant('one by one', () => through(steps)),
          contestant('ensemble', () => only(client, ensemble, pixels)),
        ];
        results[title] = await progress.run(title, (step) =>
          compare(contestants, repetitions, (round) => step.update(`round ${round}`)),
        );
        printComparison(title, results[title]);
      };
      const all = ['pre_gfpgan', 'infer_face_restoration_v2.1', 'post_gfpgan'];
      const around = ['pre_gfpgan', 'post_gfpgan'];
      await measure('images a second, 1 client', 8, 1, all, ensembles.whole);
      await measure('images a second, 4 clients', 8, 4, all, ensembles.whole);
      await measure('the same without the network, 1 client', 200, 1, around, ensembles.without);
      await measure('the same without the network, 4 clients', 200, 4, around, ensembles.without);
      return { repetitions, results };
    });
  } finally {
    rmSync(repository, { recursive: true, force: true });
  }
}
