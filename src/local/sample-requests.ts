import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import {
  compareAnswer,
  comparesOnlyShapes,
  describeMismatch,
  requestsFor,
  zeroInputs,
  type GoldenRequest,
} from '../model/golden';
import { networkTensor } from '../media/pictures';
import type { RepositoryModel, TensorConfig } from '../model';
import { paths } from '../core/paths';
import { DATA_TYPES, type Tensor } from '../triton/tensor';
import { classes, toPicture, type DisplayedResult } from './displayed-results';
import { centreCrop, pixelTensor, readImage } from '../media/image';
import { tokenize } from '../media/tokenizer';
import { versionFile } from '../model/version-file';

/** A meaningful request for a model, with a check of its answer. */
export interface SampleRequest {
  inputs: Tensor[];
  /**
   * Describes the answer in a few words.
   * @throws Error if the answer cannot be right
   */
  read(outputs: readonly Tensor[]): string;
  /** Returns what the page displays for an answer that `read` has accepted. */
  show?(outputs: readonly Tensor[]): DisplayedResult;
  /** The request has only zeros, which the model may refuse. */
  isZeros?: true;
  /** Request parameters of KServe v2. */
  parameters?: GoldenRequest['parameters'];
}

/** A public-domain photograph of a face, 256 x 256. */
export const FACE = join(paths.source, 'local', 'face-256.jpg');

const TEXTS = ['A man is playing the guitar.', 'Someone plays an instrument.', 'The stock market fell today.'];

/** Sample rate of wav2vec's input. */
const AUDIO_HZ = 16_000;

/** Requests for the models of this package. Requests for other models are made from their configurations. */
const SAMPLES: Record<string, (model: RepositoryModel) => Promise<SampleRequest>> = {
  pre_gfpgan: async ({ config }) => {
    // The photograph has the network's size, so that the model resizes nothing.
    const face = await readImage(FACE, pictureSize(config.output));
    const expected = networkTensor('', 'signed', face);
    return {
      inputs: [pixelTensor('input__0', face)],
      read: ([output]) =>
        `${describeShape(output)}, ${compare(required(output), toNumbers(expected))} to the picture in [-1, 1]`,
    };
  },
  'infer_face_restoration_v2.1': restoration,
  gfpgan: restoration,
  post_gfpgan: async () => {
    const face = await readImage(FACE);
    const pixels = Array.from(face.data);
    return {
      inputs: [networkTensor('input__0', 'signed', face), pixelTensor('input__1', face)],
      read: ([output]) => `${describeShape(output)}, ${compare(required(output), pixels)} to the picture`,
    };
  },
  'ens_face_restoration_v2.1': async () => {
    const before = await readImage(FACE);
    return {
      inputs: [pixelTensor('raw_image', before)],
      read: ([output]) => `${describeShape(output)} restored picture, ${describeRange(output)}`,
      show: ([output]) => ({ kind: 'restoration', before, after: toPicture(required(output)) }),
    };
  },
  resnet: async ({ directory }) => {
    const labels = readFileSync(join(directory, 'labels.txt'), 'utf8').trim().split('\n');
    const picture = centreCrop(await readImage(FACE), 224);
    return {
      inputs: [networkTensor('input__0', 'imagenet', picture)],
      read: ([output]) => topClass(required(output), labels),
      show: ([output]) => ({ kind: 'classes', picture, classes: classes(toNumbers(required(output)), labels) }),
    };
  },
  bert: async ({ directory, served }) => {
    const { ids, mask } = await tokenize(versionFile(directory, served.at(-1) ?? 0, 'tokenizer.json'), TEXTS);
    const compared = (outputs: readonly Tensor[]): number[] =>
      similarities(required(outputs.find(({ name }) => name === 'output__1')));
    return {
      inputs: [
        { name: 'input__0', datatype: 'INT64', ...ids },
        { name: 'input__1', datatype: 'INT64', ...mask },
      ],
      read: (outputs) => {
        const [same, other] = compared(outputs);
        if (!(Number.isFinite(same) && Number.isFinite(other)))
          throw new UserError('the embeddings are not finite numbers');
        return `cosine similarity of texts: ${same?.toFixed(3)} for similar meanings, ${other?.toFixed(3)} for different ones`;
      },
      show: (outputs) => ({ kind: 'texts', texts: TEXTS, similarities: compared(outputs) }),
    };
  },
  wav2vec_general_v2: () => {
    const tone = Float32Array.from({ length: AUDIO_HZ }, (_, i) => Math.sin((2 * Math.PI * 440 * i) / AUDIO_HZ));
    return Promise.resolve({
      inputs: [{ name: 'input_values', datatype: 'FP32', shape: [1, AUDIO_HZ], data: tone }],
      read: ([output]) => `${describeShape(output)} logits for 1 s of a 440 Hz tone, ${describeRange(output)}`,
    });
  },
};

/**
 * The request for a model whose answer is shown: a known sample, otherwise its first golden request, otherwise zeros.
 * @param loaded the configuration as the server completed it
 */
export async function sampleFor(model: RepositoryModel, loaded: object): Promise<SampleRequest> {
  // Own properties only, because a model may be named "constructor".
  const make = Object.hasOwn(SAMPLES, model.name) ? SAMPLES[model.name] : undefined;
  const [golden] = requestsFor(model.golden, model.served.at(-1) ?? 0);
  const other = (): SampleRequest => (golden === undefined ? sampleOfZeros(loaded) : sampleOfGolden(golden));
  if (make === undefined) return other();
  try {
    const sample = await make(model);
    return fits(sample, model) ? sample : other();
  } catch (error) {
    // Another model with the same name, which lacks our labels or tokenizer.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return other();
    throw error;
  }
}

function sampleOfGolden(request: GoldenRequest): SampleRequest {
  return {
    inputs: request.inputs,
    parameters: request.parameters,
    read: (outputs) => {
      const mismatch = compareAnswer(request, outputs);
      const empty = comparesOnlyShapes(request) ? ' (without values: the expected outputs have no elements)' : '';
      if (mismatch === undefined) return `golden request ${request.name}: as expected${empty}`;
      throw new UserError(`golden request ${request.name}: ${describeMismatch(mismatch)}`);
    },
  };
}

/** Whether the model's configuration accepts the request. */
function fits({ inputs }: SampleRequest, { config }: RepositoryModel): boolean {
  const batch = (config.max_batch_size ?? 0) > 0 ? 1 : 0;
  const configured = config.input ?? [];
  return (
    configured.length === inputs.length &&
    configured.every(({ name, data_type: type, dims = [] }) => {
      const tensor = inputs.find((input) => input.name === name);
      if (tensor === undefined || DATA_TYPES[tensor.datatype].configName !== type) return false;
      const shape = tensor.shape.slice(batch);
      return shape.length === dims.length && dims.every((size, i) => size === -1 || size === shape[i]);
    })
  );
}

/** The request for a model without golden requests and without a sample. */
function sampleOfZeros(config: object): SampleRequest {
  return {
    inputs: zeroInputs(config),
    isZeros: true,
    read: (outputs) => outputs.map((output) => `${output.name} ${describeShape(output)}`).join(', '),
  };
}

/** Height and width of a network's pictures; undefined for any size, so that the photograph keeps its size. */
function pictureSize(tensors: readonly TensorConfig[] | undefined): number | undefined {
  const size = tensors?.[0]?.dims?.at(-1);
  return size === undefined || size < 1 ? undefined : size;
}

async function restoration(model: RepositoryModel): Promise<SampleRequest> {
  return {
    inputs: [networkTensor('input__0', 'signed', await readImage(FACE, pictureSize(model.config.input)))],
    read: ([output]) => `${describeShape(output)} restored face, ${describeRange(output)}`,
  };
}

/** Cosine similarity of the first text to each of the others. */
function similarities(embeddings: Tensor): number[] {
  const [texts = 0, size = 0] = embeddings.shape;
  const values = toNumbers(embeddings);
  const row = (i: number): number[] => values.slice(i * size, (i + 1) * size);
  const product = (a: readonly number[], b: readonly number[]): number =>
    a.reduce((sum, x, k) => sum + x * (b[k] ?? 0), 0);
  const length = (a: readonly number[]): number => Math.sqrt(product(a, a));
  const first = row(0);
  return Array.from({ length: texts - 1 }, (_, i) => product(first, row(i + 1)) / (length(first) * length(row(i + 1))));
}

function topClass(scores: Tensor, labels: readonly string[]): string {
  describeRange(scores);
  const values = toNumbers(scores);
  const top = values.indexOf(Math.max(...values));
  return `${describeShape(scores)}, highest "${labels[top] ?? top}" (${values[top]?.toFixed(2)})`;
}

function required(tensor: Tensor | undefined): Tensor {
  if (tensor === undefined) throw new UserError('the answer lacks an output');
  return tensor;
}

function describeShape(tensor: Tensor | undefined): string {
  const { datatype, shape } = required(tensor);
  return `${datatype} [${shape.join(', ')}]`;
}

/** @throws UserError if a value is NaN or infinite, or all values are equal, because no network answers like that */
function describeRange(tensor: Tensor | undefined): string {
  const values = toNumbers(required(tensor));
  let least = Infinity;
  let most = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) throw new UserError(`the answer contains ${value}`);
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (!(least < most)) throw new UserError(`every value of the answer is ${least}`);
  return `from ${short(least)} to ${short(most)}`;
}

/** @throws UserError if the values differ by more than rounding */
function compare(output: Tensor, expected: readonly number[]): string {
  const values = toNumbers(output);
  if (values.length !== expected.length)
    throw new UserError(`the answer has ${values.length} values instead of ${expected.length}`);
  let most = 0;
  values.forEach((value, i) => (most = Math.max(most, Math.abs(value - (expected[i] ?? NaN)))));
  if (!(most < 1e-6)) throw new UserError(`the answer differs by ${most} from the expected values`);
  return 'equal';
}

/** The values of an output, as numbers. */
export function toNumbers({ name, data }: Tensor): number[] {
  return Array.from<number | bigint | Buffer>(data).map((value) => {
    if (Buffer.isBuffer(value)) throw new UserError(`output ${name} contains strings instead of numbers`);
    return Number(value);
  });
}

function short(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}
