import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { podPrograms } from '../../infra/triton/agent/program';
import { Progress } from '../../src/cli/progress';
import { UserError } from '../../src/core/errors';
import { paths } from '../../src/core/paths';
import { Cleanup } from '../../src/core/cleanup';
import { FACE } from '../../src/local/sample-requests';
import { selectModels } from '../../src/local/selection';
import { Pipeline } from '../../src/local/pipeline';
import { requireAllServed } from '../../src/local/report';
import { localDirectory, startStack } from '../../src/local/stack';
import { readValidModels } from '../../src/local/valid-models';
import { pixelTensor, readImage } from '../../src/model/media/image';
import { networkTensor } from '../../src/model/media/pictures';
import { TritonHttpClient } from '../../src/triton/http';
import { joinRows, type Tensor } from '../../src/triton/tensor';
import { compareRates, inParallel, inScratch, type BenchOptions } from './compare';

const SINGLE = 'infer_face_restoration_v2.1';
const STEPS = ['pre_gfpgan', SINGLE, 'post_gfpgan'];
const ENSEMBLE = 'ens_face_restoration_v2.1';
const ENSEMBLE_WITHOUT_NETWORK = 'ens_without_network';

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

const WHOLE = { images: 8, steps: STEPS, ensemble: ENSEMBLE };
const AROUND_NETWORK = { images: 200, steps: ['pre_gfpgan', 'post_gfpgan'], ensemble: ENSEMBLE_WITHOUT_NETWORK };
const ENSEMBLE_CASES = [
  { title: 'images a second, 1 client', clients: 1, ...WHOLE },
  { title: 'images a second, 4 clients', clients: 4, ...WHOLE },
  { title: 'the same without the network, 1 client', clients: 1, ...AROUND_NETWORK },
  { title: 'the same without the network, 4 clients', clients: 4, ...AROUND_NETWORK },
];

/** Images a second: GFPGAN in batches and one by one; its ensemble and a client that calls the steps one by one. */
export async function benchRequests({ repetitions, quick }: BenchOptions): Promise<void> {
  const pixels = pixelTensor('raw_image', await readImage(FACE));
  const face = networkTensor('input__0', 'signed', await readImage(FACE));
  const eight = joinRows(Array<Tensor>(8).fill(face));
  await inScratch(async (repository) => {
    for (const name of [...STEPS, ENSEMBLE, 'gfpgan']) {
      cpSync(join(paths.modelRepository, name), join(repository, name), { recursive: true });
    }
    const folder = join(repository, ENSEMBLE_WITHOUT_NETWORK);
    mkdirSync(join(folder, '1'), { recursive: true });
    writeFileSync(join(folder, 'model.yaml'), WITHOUT_NETWORK);
    writeFileSync(join(folder, '1', '.keep'), 'An ensemble has no file.\n');
    await withModels(repository, async (client, progress) => {
      const compare = (title: string, images: number, ways: Record<string, () => Promise<unknown>>): Promise<void> =>
        progress.run(title, (step) =>
          compareRates(title, ways, images, repetitions, (round) => step.update(`round ${round}`)),
        );
      await compare('images a second, GFPGAN', 8, {
        '8 requests, one after the other': () => inParallel(8, 1, () => infer(client, SINGLE, face)),
        '8 requests at once': () => inParallel(8, 8, () => infer(client, SINGLE, face)),
        '8 requests at once, batched by Triton': () => inParallel(8, 8, () => infer(client, 'gfpgan', face)),
        'one request of 8 images': () => infer(client, 'gfpgan', eight),
      });
      const callSteps = async (steps: readonly string[]): Promise<void> => {
        let tensor: Tensor = pixels;
        for (const step of steps) {
          const others = step === 'post_gfpgan' ? [{ ...pixels, name: 'input__1' }] : [];
          tensor = await infer(client, step, { ...tensor, name: 'input__0' }, ...others);
        }
      };
      for (const { title, images, clients, steps, ensemble } of quick ? ENSEMBLE_CASES.slice(2) : ENSEMBLE_CASES) {
        await compare(title, images, {
          'one by one': () => inParallel(images, clients, () => callSteps(steps)),
          ensemble: () => inParallel(images, clients, () => infer(client, ensemble, pixels)),
        });
      }
    });
  });
}

/** Runs `work` against a local stack that serves all models of a repository. */
async function withModels(
  repository: string,
  work: (client: TritonHttpClient, progress: Progress) => Promise<void>,
): Promise<void> {
  const progress = new Progress();
  const undo = new Cleanup();
  undo.defer(() => rmSync(localDirectory(repository), { recursive: true, force: true }));
  try {
    const { served } = selectModels(await readValidModels(repository, { artifacts: false }));
    const names = served.map(({ name }) => name);
    const shared = { repository, loadTimeoutMs: 300_000, progress };
    const tools = await startStack({
      ...shared,
      models: names,
      programs: () => Promise.resolve(podPrograms()),
      // Free ports, which do not collide with a running local stack.
      ports: { 'http-port': 0, 'grpc-port': 0, 'metrics-port': 0, 's3-port': 0 },
      defer: (step) => undo.defer(step),
    });
    const options = { selection: {}, weights: [], noAsk: true, show: () => Promise.resolve() };
    const pipeline = new Pipeline(tools, { ...shared, ...options, signal: new AbortController().signal }, []);
    pipeline.add(names);
    await Promise.race([pipeline.idle(), pipeline.broken]);
    requireAllServed(pipeline);
    const client = new TritonHttpClient((await tools.stack).triton.httpUrl);
    undo.defer(() => client.close());
    await work(client, progress);
  } finally {
    await undo.run();
  }
}

/** Returns the only output of a model. */
async function infer(client: TritonHttpClient, model: string, ...inputs: Tensor[]): Promise<Tensor> {
  const { outputs } = await client.infer(model, inputs);
  if (outputs[0] === undefined) throw new UserError(`${model} returned no output`);
  return outputs[0];
}
