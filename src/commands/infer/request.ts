import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../core/errors';
import { readImage } from '../../model/media/image';
import { traceCommand } from '../../core/next-command';
import { tokenize } from '../../model/media/tokenizer';
import { versionFile } from '../../model/paths';
import type { TensorMetadata } from '../../triton/client';
import type { Nested } from '../../triton/tensor-from-json';
import { describe, type InputValue, type ServedModel } from './model';
import { isDataType, type TensorData, type DataType } from '../../triton/tensor';
import { convertArray } from '../../model/media/npy';
import { encodePictures, pictureLayout, PIXELS, usualPixels, type PixelKind } from '../../model/media/pictures';
import { isRecord, PICTURES, type InputFile } from './input-files';

export interface RequestOptions {
  /** Default: the usual form for the input's data type or for a classifier. */
  pixels: PixelKind | undefined;
  /** Folder of the model repository, for the tokenizer. */
  repository: string;
}

/** The form in which the pictures for one input are sent. A model's description does not state the pixel format. */
export interface SentPictures {
  input: string;
  pixels: PixelKind;
  /** `RGB from -1 to 1` */
  values: string;
  layout: 'NCHW' | 'NHWC' | 'CHW' | 'HWC';
  shape: readonly number[];
}

export interface BuiltRequest {
  values: Values;
  pictures: SentPictures[];
}

/** `x: sends the picture as RGB from -1 to 1, NCHW [1, 3, 256, 256] (--pixels signed; other formats: bgr, ...)` */
export function describePictures({ input, pixels, values, layout, shape }: SentPictures): string {
  const others = Object.keys(PIXELS).filter((kind) => kind !== pixels);
  return `${input}: sends the picture as ${values}, ${layout} [${shape.join(', ')}] (--pixels ${pixels}; other formats: ${others.join(', ')})`;
}

type Values = Record<string, InputValue>;
type OfKind<K extends InputFile['kind']> = Extract<InputFile, { kind: K }>;

/** A typical input for the model, as on the command line: `PICTURE.jpg`. */
export function exampleInput(
  model: Pick<ServedModel, 'name' | 'version' | 'versions' | 'inputs'>,
  repository: string,
): string {
  const { inputs } = model;
  const hasTokenizer = inputs.every(isTokens) && existsSync(tokenizerFile(model, repository));
  if (hasTokenizer) return '"a text"';
  const [only] = inputs;
  if (only === undefined || inputs.length > 1) {
    return inputs.map((input) => `${input.name}=${getSource(input) ?? 'FILE.npy'}`).join(' ');
  }
  return getSource(only) ?? `${only.name}=FILE.npy`;
}

/** The typical source of an input; undefined if the input alone does not determine it. */
function getSource(input: TensorMetadata): string | undefined {
  if (pictureLayout(input) !== undefined) return 'PICTURE.jpg';
  return input.datatype === 'BYTES' ? '"a text"' : undefined;
}

const isTokens = ({ datatype, shape }: TensorMetadata): boolean =>
  (datatype === 'INT64' || datatype === 'INT32') && shape.length === 2 && shape.at(-1) === -1;
const tokenizerFile = (model: Pick<ServedModel, 'name' | 'version' | 'versions'>, repository: string): string =>
  versionFile(join(repository, model.name), getVersion(model), 'tokenizer.json');

/** The version that answers: the requested one, else the newest one that is served. */
const getVersion = ({ version, versions }: Pick<ServedModel, 'version' | 'versions'>): number =>
  version ?? Math.max(...versions.map(Number));

/**
 * Assigns each source to an input and converts the source to the value of that input.
 * @throws UserError that lists the model's inputs, if a source fits none of them
 */
export async function buildRequest(
  model: ServedModel,
  sources: readonly InputFile[],
  options: RequestOptions,
): Promise<BuiltRequest> {
  const values: Values = {};
  const sent: SentPictures[] = [];
  const { inputs } = model;
  const nowhere = (what: string): UserError =>
    new UserError(`${model.name} takes no ${what}`, {
      hint: `its inputs are ${inputs.map((input) => `${input.name} ${describe(input)}`).join(', ')}; give any input as NAME=FILE.npy or NAME=[[1, 2]]`,
    });

  for (const [name, group] of byTarget(sources)) {
    const candidates = inputs.filter(
      (input) => (name ?? input.name) === input.name && !Object.hasOwn(values, input.name),
    );
    const pictures = ofKind(group, 'picture');
    if (pictures.length > 0) {
      const target = candidates.find((input) => pictureLayout(input) !== undefined);
      if (target === undefined) throw nowhere('picture');
      const { description, value } = await pictureValue(model, target, pictures, options);
      values[target.name] = value;
      sent.push(description);
    }
    const texts = ofKind(group, 'text').map(({ text }) => text);
    if (texts.length > 0)
      Object.assign(values, await textValues(model, candidates, texts, options.repository, nowhere));
    for (const { value } of ofKind(group, 'json')) {
      if (isRecord(value)) Object.assign(values, value);
      else {
        const target = getNext(candidates, values, nowhere);
        values[target.name] = isOneRow(model, target, getDepth(value)) ? [value] : value;
      }
    }
    for (const { tensor } of ofKind(group, 'array')) {
      const target = getNext(candidates, values, nowhere);
      const { name: input, datatype } = target;
      const { data, shape } = isDataType(datatype) ? convertArray(tensor, input, datatype) : tensor;
      values[target.name] = { data, shape: isOneRow(model, target, shape.length) ? [1, ...shape] : shape };
    }
  }
  return { values, pictures: sent };
}

/** Groups the sources by the input that they name. Sources without a name come last. */
function byTarget(sources: readonly InputFile[]): Map<string | undefined, InputFile[]> {
  const names = [...new Set(sources.map(({ name }) => name))];
  names.sort((a, b) => Number(a === undefined) - Number(b === undefined));
  return new Map(names.map((name) => [name, sources.filter((source) => source.name === name)]));
}

const ofKind = <K extends InputFile['kind']>(sources: readonly InputFile[], kind: K): OfKind<K>[] =>
  sources.filter((source): source is OfKind<K> => source.kind === kind);

function getNext(
  candidates: readonly TensorMetadata[],
  values: Values,
  nowhere: (what: string) => UserError,
): TensorMetadata {
  const target = candidates.find(({ name }) => !Object.hasOwn(values, name));
  if (target === undefined) throw nowhere('further array');
  return target;
}

/** Whether a value with this number of axes lacks only the batch axis. */
function isOneRow(model: ServedModel, { shape }: TensorMetadata, axes: number): boolean {
  return model.maxBatchSize > 0 && axes === shape.length - 1;
}

function getDepth(value: Nested): number {
  return Array.isArray(value) ? 1 + getDepth((value as Nested[])[0] ?? 0) : 0;
}

async function pictureValue(
  model: ServedModel,
  input: TensorMetadata,
  sources: readonly { file: string }[],
  { pixels }: RequestOptions,
): Promise<{ description: SentPictures; value: { data: TensorData[DataType]; shape: number[] } }> {
  const layout = pictureLayout(input);
  if (layout === undefined || !isDataType(input.datatype)) throw new Error(`${input.name} is not a picture`);
  const isSingle = !layout.batched || input.shape[0] === 1;
  if (isSingle && sources.length > 1) {
    throw new UserError(`${model.name} takes one picture per request, but ${sources.length} were given`);
  }
  const { width, height } = layout;
  const size = width > 0 && height > 0 ? { width, height } : undefined;
  const pictures = await Promise.all(
    sources.map(({ file }) =>
      readImage(file, size).catch((cause: unknown) => {
        throw new UserError(`cannot read the picture ${file}: ${(cause as Error).message}`, {
          hint: `save the picture in one of these formats: ${PICTURES.join(' ')}`,
          cause,
        });
      }),
    ),
  );
  const isClassifier = model.labelledOutputs.length > 0;
  const usual = isClassifier && input.datatype !== 'UINT8' ? 'imagenet' : usualPixels(input.datatype);
  const kind = pixels ?? usual;
  const value = encodePictures(input.datatype, layout, kind, pictures);
  const axes = layout.channelsLast ? 'HWC' : 'CHW';
  const description = {
    input: input.name,
    pixels: kind,
    values: PIXELS[kind].description,
    layout: layout.batched ? (`N${axes}` as const) : axes,
    shape: value.shape,
  } as const;
  return { description, value };
}

/** The texts as strings if the model takes strings; otherwise the ids from the model's tokenizer. */
async function textValues(
  model: ServedModel,
  inputs: readonly TensorMetadata[],
  texts: readonly string[],
  repository: string,
  nowhere: (what: string) => UserError,
): Promise<Values> {
  const strings = inputs.find(({ datatype }) => datatype === 'BYTES');
  if (strings !== undefined) {
    const data = texts.map((text) => Buffer.from(text));
    const batch = model.maxBatchSize > 0;
    const shape = strings.shape.map((_, i) => (i === (batch ? 0 : strings.shape.length - 1) ? texts.length : 1));
    return { [strings.name]: { data, shape } };
  }
  if (inputs.length === 0 || !inputs.every(isTokens)) throw nowhere('text');
  const file = tokenizerFile(model, repository);
  if (!existsSync(file)) {
    throw new UserError(`${model.name} takes token ids, but its tokenizer ${file} is missing`, {
      hint:
        `${traceCommand(join(repository, model.name))}, if its trace.py writes the file; otherwise copy it there, or send ` +
        "ids: '[[5, 9]]'. --repo DIR chooses another repository",
    });
  }
  const { ids, mask } = await tokenize(file, texts);
  const none = { shape: mask.shape, data: new BigInt64Array(mask.data.length) };
  // Inputs are matched by their usual names; if a model has none (TorchScript), by their usual order.
  const usual = [ids, mask, none];
  return Object.fromEntries(
    inputs.map(({ name, datatype }, i): [string, InputValue] => {
      const tokens = /mask/.test(name) ? mask : /type|segment/.test(name) ? none : /ids/.test(name) ? ids : usual[i];
      if (tokens === undefined) throw nowhere('text');
      return [name, { shape: tokens.shape, data: asIntegers(datatype as 'INT32' | 'INT64', tokens.data) }];
    }),
  );
}

function asIntegers(datatype: 'INT32' | 'INT64', data: BigInt64Array): TensorData[DataType] {
  return datatype === 'INT64' ? data : Int32Array.from(data, Number);
}
