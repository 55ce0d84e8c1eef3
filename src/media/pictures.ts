import { UserError } from '../core/errors';
import type { BgrImage } from './image';
import { DATA_TYPES, elementCount, type DataType, type Tensor, type TensorData } from '../triton/tensor';

interface PixelFacts {
  /** Which of a pixel's blue, green and red is a channel's. */
  order: readonly [number, number, number];
  /** From a byte to the tensor's value, in a channel of the tensor, and back. */
  encode: (byte: number, channel: number) => number;
  decode: (value: number, channel: number) => number;
}

const RGB = [2, 1, 0] as const;
/** Mean and standard deviation of ImageNet, for red, green and blue in [0, 1], which classifiers are trained with. */
const IMAGENET = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] } as const;
const mean = (channel: number): number => IMAGENET.mean[channel] ?? 0;
const deviation = (channel: number): number => IMAGENET.deviation[channel] ?? 1;

/** What a network may want the values of a picture to be. */
export const PIXELS = {
  bgr: { order: [0, 1, 2], encode: (byte) => byte, decode: (value) => value },
  rgb: { order: RGB, encode: (byte) => byte, decode: (value) => value },
  unit: { order: RGB, encode: (byte) => byte / 255, decode: (value) => value * 255 },
  signed: { order: RGB, encode: (byte) => (byte / 255 - 0.5) / 0.5, decode: (value) => (value * 0.5 + 0.5) * 255 },
  imagenet: {
    order: RGB,
    encode: (byte, c) => (byte / 255 - mean(c)) / deviation(c),
    decode: (value, c) => (value * deviation(c) + mean(c)) * 255,
  },
} as const satisfies Record<string, PixelFacts>;

export type PixelKind = keyof typeof PIXELS;

/** Bytes are taken for blue, green, red, as OpenCV has them; other numbers for what GFPGAN takes. */
export const usualPixels = (datatype: string): PixelKind => (datatype === 'UINT8' ? 'bgr' : 'signed');

/** Where the axes of a picture are in a tensor. */
export interface PictureLayout {
  channelsLast: boolean;
  /** -1 for any. */
  height: number;
  width: number;
  /** Whether there is an axis of pictures in front. */
  batched: boolean;
}

const PICTURE_TYPES: readonly string[] = ['UINT8', 'FP16', 'BF16', 'FP32', 'FP64'] satisfies DataType[];

/** Undefined where the shape is not one of a picture of three colours, or of several. */
export function pictureLayout(tensor: { datatype: string; shape: readonly number[] }): PictureLayout | undefined {
  const { shape, datatype } = tensor;
  const batched = shape.length === 4;
  if (!PICTURE_TYPES.includes(datatype) || (!batched && shape.length !== 3)) return undefined;
  const [first = 0, second = 0, third = 0] = shape.slice(-3);
  if (third === 3) return { channelsLast: true, height: first, width: second, batched };
  return first === 3 ? { channelsLast: false, height: second, width: third, batched } : undefined;
}

/** Pictures of one size as the elements of a tensor, and its shape. */
export function encodePictures(
  datatype: DataType,
  { channelsLast, batched }: Pick<PictureLayout, 'channelsLast' | 'batched'>,
  kind: PixelKind,
  pictures: readonly BgrImage[],
): { data: TensorData[DataType]; shape: number[] } {
  const [{ width, height }] = pictures as [BgrImage];
  if (pictures.some((other) => other.width !== width || other.height !== height)) {
    throw new UserError('the pictures differ in size, which one request cannot hold', { hint: 'send them one by one' });
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

/** One picture as a network takes it: FP32 [1, 3, height, width]; GFPGAN `signed`, classifiers `imagenet`. */
export function networkTensor(name: string, kind: PixelKind, picture: BgrImage): Tensor {
  const layout = { channelsLast: false, batched: true };
  return { name, datatype: 'FP32', ...encodePictures('FP32', layout, kind, [picture]) } as Tensor;
}

/**
 * The first picture of a tensor; values beyond what a byte holds are cut off.
 * @throws UserError where the tensor holds none
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
