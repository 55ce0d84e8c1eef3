import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { paths } from '../core/paths';
import { pixelTensor, readImage, type BgrImage } from '../model/media/image';
import { networkTensor } from '../model/media/pictures';
import { tokenize } from '../model/media/tokenizer';
import type { RepositoryModel } from '../model';
import {
  compareAnswer,
  comparesOnlyShapes,
  describeMismatch,
  requestsFor,
  zeroInputs,
  type GoldenRequest,
} from '../model/golden';
import { versionFile } from '../model/paths';
import { DATA_TYPES, type Tensor } from '../triton/tensor';

/** What the page shows of an answer beside its description. */
export interface Exhibit {
  title: string;
  pictures: { caption: string; image: BgrImage }[];
  values: { text: string; /** From 0 to 1, shown as a bar. */ share: number; shown: string }[];
}

/** A meaningful request for a model, with a check of its answer. */
export interface SampleRequest {
  inputs: Tensor[];
  /**
   * Describes the answer in a few words.
   * @throws Error if the answer cannot be right
   */
  read: (outputs: readonly Tensor[]) => string;
  /** Returns what the page shows of an answer that `read` has accepted. */
  show?: (outputs: readonly Tensor[]) => Exhibit;
  /** The request has only zeros, which the model may refuse. */
  isZeros?: true;
  /** Request parameters of KServe v2. */
  parameters?: GoldenRequest['parameters'];
}

/** A public-domain photograph of a face, 256 x 256. */
export const FACE = join(paths.source, 'local', 'face-256.jpg');

const TEXTS = ['A man is playing the guitar.', 'Someone plays an instrument.', 'The stock market fell today.'] as const;

/** Requests for the models of this package whose answers people can judge. */
const SAMPLES: Record<string, (model: RepositoryModel) => Promise<SampleRequest>> = {
  'ens_face_restoration_v2.1': async () => {
    const image = await readImage(FACE);
    const getPicture = ([output]: readonly Tensor[]): BgrImage => toPicture(required(output));
    return {
      inputs: [pixelTensor('raw_image', image)],
      read: (outputs) => {
        const { width, height, data } = getPicture(outputs);
        if (new Set(data).size < 2) throw new UserError('every pixel of the picture is equal');
        return `restored picture, ${width} x ${height}`;
      },
      show: (outputs) => ({
        title: 'Face restoration',
        pictures: [
          { caption: 'Input: a photograph in the public domain', image },
          { caption: 'Answer', image: getPicture(outputs) },
        ],
        values: [],
      }),
    };
  },
  resnet: async ({ directory }) => {
    const labels = readFileSync(join(directory, 'labels.txt'), 'utf8').trim().split('\n');
    const image = await readImage(FACE, { width: 224, height: 224 });
    const getClasses = ([output]: readonly Tensor[]): Exhibit['values'] =>
      topClasses(finiteNumbers(required(output)), labels);
    return {
      inputs: [networkTensor('input__0', 'imagenet', image)],
      read: (outputs) => `highest "${getClasses(outputs)[0]?.text}" (${getClasses(outputs)[0]?.shown})`,
      show: (outputs) => ({
        title: 'Image classification',
        pictures: [{ caption: 'The part of the photograph that was classified', image }],
        values: getClasses(outputs),
      }),
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
        return `cosine similarity of texts: ${same?.toFixed(3)} for similar meanings, ${other?.toFixed(3)} for different ones`;
      },
      show: (outputs) => ({
        title: `Similarity to "${TEXTS[0]}"`,
        pictures: [],
        values: compared(outputs).map((share, i) => ({ text: TEXTS[i + 1] ?? '', share, shown: share.toFixed(3) })),
      }),
    };
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
    read: (outputs) =>
      outputs.map(({ name, datatype, shape }) => `${name} ${datatype} [${shape.join(', ')}]`).join(', '),
  };
}

/** Cosine similarity of the first text to each of the others; the embeddings have norm 1. */
function similarities(embeddings: Tensor): number[] {
  const [texts = 0, size = 0] = embeddings.shape;
  const values = finiteNumbers(embeddings);
  return Array.from({ length: texts - 1 }, (_, i) =>
    values.slice(0, size).reduce((sum, value, k) => sum + value * (values[(i + 1) * size + k] ?? 0), 0),
  );
}

function required(tensor: Tensor | undefined): Tensor {
  if (tensor === undefined) throw new UserError('the answer lacks an output');
  return tensor;
}

function finiteNumbers(tensor: Tensor): number[] {
  const values = toNumbers(tensor);
  const wrong = values.find((value) => !Number.isFinite(value));
  if (wrong !== undefined) throw new UserError(`the answer contains ${wrong}`);
  return values;
}

/** The values of an output, as numbers. */
export function toNumbers({ name, data }: Tensor): number[] {
  return Array.from<number | bigint | Buffer>(data).map((value) => {
    if (Buffer.isBuffer(value)) throw new UserError(`output ${name} contains strings instead of numbers`);
    return Number(value);
  });
}

/** Number of classes that the page shows. */
const CLASSES = 5;

/**
 * The five most probable classes by the softmax of a classifier's scores; equal ones in the order of their numbers. A missing
 * label becomes the class number.
 */
export function topClasses(scores: readonly number[], labels: readonly string[]): Exhibit['values'] {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const parts = scores.map((score) => Math.exp(score - most));
  const sum = parts.reduce((a, b) => a + b, 0);
  return parts
    .map((part, i) => ({
      text: labels[i] ?? String(i),
      share: part / sum,
      shown: `${((part / sum) * 100).toFixed(1)} %`,
    }))
    .sort((a, b) => b.share - a.share)
    .slice(0, CLASSES);
}

/**
 * The picture in an output of the face restoration ensemble: UINT8 [height, width, 3], BGR.
 * @throws UserError for any other tensor
 */
export function toPicture(tensor: Tensor): BgrImage {
  const [height = 0, width = 0, channels] = tensor.shape;
  if (tensor.datatype === 'UINT8' && tensor.shape.length === 3 && channels === 3)
    return { width, height, data: tensor.data };
  const shape = tensor.shape.join(', ');
  throw new UserError(
    `output ${tensor.name} is ${tensor.datatype} [${shape}], not a picture (UINT8 [height, width, 3])`,
  );
}
