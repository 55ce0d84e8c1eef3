import { UserError } from '../../core/errors';
import type { BgrImage } from './image';
import { DATA_TYPES, elementCount, type DataType, type Tensor, type TensorData } from '../../triton/tensor';

interface PixelFacts {
  /** Order and range of the values, for people. */
  description: string;
  /** For each channel of the tensor, the index of its colour in a pixel of blue, green, red. */
  order: readonly [number, number, number];
  /** Converts a byte to the tensor's value in a channel of the tensor; `decode` is the inverse. */
  encode: (byte: number, channel: number) => number;
  decode: (value: number, channel: number) => number;
}

const RGB = [2, 1, 0] as const;
/** Mean and standard deviation of ImageNet for red, green and blue in [0, 1]. Classifiers are trained with these. */
const IMAGENET = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] } as const;
const mean = (channel: number): number => IMAGENET.mean[channel] ?? 0;
const deviation = (channel: number): number => IMAGENET.deviation[channel] ?? 1;

/** Forms in which networks take the values of a picture. */
export const PIXELS = {
  bgr: { description: 'BGR from 0 to 255', order: [0, 1, 2], encode: (byte) => byte, decode: (value) => value },
  rgb: { description: 'RGB from 0 to 255', order: RGB, encode: (byte) => byte, decode: (value) => value },
  unit: {
    description: 'RGB from 0 to 1',
    order: RGB,
    encode: (byte) => byte / 255,
    decode: (value) => value * 255,
  },
  signed: {
    description: 'RGB from -1 to 1',
    order: RGB,
    encode: (byte) => (byte / 255 - 0.5) / 0.5,
    decode: (value) => (value * 0.5 + 0.5) * 255,
  },
  imagenet: {
    description: 'RGB from 0 to 1, less the mean of ImageNet, divided by its standard deviation',
    order: RGB,
    encode: (byte, c) => (byte / 255 - mean(c)) / deviation(c),
    decode: (value, c) => (value * deviation(c) + mean(c)) * 255,
  },
} as const satisfies Record<string, PixelFacts>;

export type PixelKind = keyof typeof PIXELS;

/** The default: bytes are blue, green, red as in OpenCV; other numbers have the form that GFPGAN takes. */
export const usualPixels = (datatype: string): PixelKind => (datatype === 'UINT8' ? 'bgr' : 'signed');

/** Positions of a picture's axes in a tensor. */
export interface PictureLayout {
  channelsLast: boolean;
  /** -1 for any length. */
  height: number;
  width: number;
  /** Whether the tensor has a leading axis of pictures. */
  batched: boolean;
}

const PICTURE_TYPES: readonly string[] = ['UINT8', 'FP16', 'BF16', 'FP32', 'FP64'] satisfies DataType[];

/** The layout of a tensor; undefined if its shape is not that of one or several pictures with three colours. */
export function pictureLayout(tensor: { datatype: string; shape: readonly number[] }): PictureLayout | undefined {
  const { shape, datatype } = tensor;
  const batched = shape.length === 4;
  if (!PICTURE_TYPES.includes(datatype) || (!batched && shape.length !== 3)) return undefined;
  const [first = 0, second = 0, third = 0] = shape.slice(-3);
  if (third === 3) return { channelsLast: true, height: first, width: second, batched };
  return first === 3 ? { channelsLast: false, height: second, width: third, batched } : undefined;
}

/** Encodes pictures of one size as the elements and the shape of a tensor. */
export function encodePictures(
  datatype: DataType,
  { channelsLast, batched }: Pick<PictureLayout, 'channelsLast' | 'batched'>,
  kind: PixelKind,
  pictures: readonly BgrImage[],
): { data: TensorData[DataType]; shape: number[] } {
  const [{ width, height }] = pictures as [BgrImage];
  if (pictures.some((other) => other.width !== width || other.height !== height)) {
    throw new UserError('the pictures of one request must have the same size', {
      hint: 'send them in separate requests',
    });
  }
  const { order, encode } = PIXELS[kind];
  const size = width * height;
  const one = channelsLast ? [height, width, 3] : [3, height, width];
  const shape = batched ? [pictures.length, ...one] : one;
  const data = new DATA_TYPES[datatype].ArrayType(elementCount(shape)) as Float32Array;
  pictures.forEach((picture, n) => {
    for (let c = 0; c < 3; c += 1) {
      const [start, step] = channelsLast ? [c, 3] : [c * size, 1];
      const source = order[c] ?? 0;
      const from = n * size * 3 + start;
      for (let i = 0; i < size; i += 1) data[from + i * step] = encode(picture.data[i * 3 + source] ?? 0, c);
    }
  });
  return { data, shape };
}

/** Encodes one picture as FP32 [1, 3, height, width]. GFPGAN takes `signed` values, classifiers take `imagenet`. */
export function networkTensor(name: string, kind: PixelKind, picture: BgrImage): Tensor {
  const layout = { channelsLast: false, batched: true };
  return { name, datatype: 'FP32', ...encodePictures('FP32', layout, kind, [picture]) } as Tensor;
}

/**
 * Decodes the first picture of a tensor; values are clamped to the range of a byte.
 * @throws UserError if the tensor is not a picture
 */
export function decodePicture(tensor: Tensor, kind: PixelKind): BgrImage {
  const layout = pictureLayout(tensor);
  if (layout === undefined) {
    throw new UserError(`output ${tensor.name}, ${tensor.datatype} [${tensor.shape.join(', ')}], is not a picture`, {
      hint: 'write it to a .npy or .json file',
    });
  }
  const { channelsLast, width, height } = layout;
  const { order, decode } = PIXELS[kind];
  const values = tensor.data as Float32Array;
  const size = width * height;
  const data = new Uint8Array(size * 3);
  for (let c = 0; c < 3; c += 1) {
    const [start, step] = channelsLast ? [c, 3] : [c * size, 1];
    const target = order[c] ?? 0;
    for (let i = 0; i < size; i += 1) {
      const byte = Math.round(decode(values[start + i * step] ?? 0, c));
      data[i * 3 + target] = Math.min(255, Math.max(0, byte));
    }
  }
  return { width, height, data };
}
