import sharp from 'sharp';
import type { Tensor } from '../triton/tensor';

/** A picture as OpenCV holds it: rows of pixels of blue, green, red. */
export interface BgrImage {
  width: number;
  height: number;
  /** height x width x 3 bytes. */
  data: Uint8Array;
}

/** Mean and standard deviation of ImageNet, for red, green and blue in [0, 1], which ResNet was trained with. */
export const IMAGENET = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] } as const;

/**
 * Reads any picture file; transparency is dropped.
 * @param size to scale it to so many pixels, or `size` x `size`: all of the picture, or with `crop` its middle, unbent
 */
export async function readImage(
  path: string,
  size?: number | { width: number; height: number; crop: true },
): Promise<BgrImage> {
  const picture = sharp(path).rotate();
  const wanted = typeof size === 'number' ? { width: size, height: size, fit: 'fill' as const } : size;
  const { data, info } = await (wanted === undefined ? picture : picture.resize(wanted))
    .removeAlpha()
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, data: swapRedAndBlue(data) };
}

/** Writes a picture in the format that the file's name ends in. */
export async function writeImage(path: string, { width, height, data }: BgrImage): Promise<void> {
  await sharp(swapRedAndBlue(data), { raw: { width, height, channels: 3 } }).toFile(path);
}

/** The tensor that pre_gfpgan and the ensemble take: UINT8 [height, width, 3], BGR. */
export function pixelTensor(name: string, { width, height, data }: BgrImage): Tensor {
  return { name, datatype: 'UINT8', shape: [height, width, 3], data };
}

/** What GFPGAN takes: FP32 [1, 3, height, width], RGB, (x / 255 - 0.5) / 0.5. */
export function normalizedTensor(name: string, image: BgrImage): Tensor {
  return planes(name, image, (value) => (value / 255 - 0.5) / 0.5);
}

/** What the classifier takes: FP32 [1, 3, height, width], RGB, less ImageNet's mean and over its deviation. */
export function imagenetTensor(name: string, image: BgrImage): Tensor {
  return planes(name, image, (value, c) => (value / 255 - (IMAGENET.mean[c] ?? 0)) / (IMAGENET.deviation[c] ?? 1));
}

/** The part of the picture around its middle, `size` pixels each way. */
export function centreCrop({ width, height, data }: BgrImage, size: number): BgrImage {
  const left = Math.floor((width - size) / 2);
  const top = Math.floor((height - size) / 2);
  const cropped = new Uint8Array(size * size * 3);
  for (let y = 0; y < size; y += 1) {
    const start = ((top + y) * width + left) * 3;
    cropped.set(data.subarray(start, start + size * 3), y * size * 3);
  }
  return { width: size, height: size, data: cropped };
}

/** Pixels of BGR to planes of red, green and blue, each value passed through `convert` with its plane's number. */
function planes(
  name: string,
  { width, height, data }: BgrImage,
  convert: (value: number, channel: number) => number,
): Tensor {
  const size = width * height;
  const values = new Float32Array(3 * size);
  for (let c = 0; c < 3; c += 1) {
    for (let i = 0; i < size; i += 1) values[c * size + i] = convert(data[i * 3 + 2 - c] ?? 0, c);
  }
  return { name, datatype: 'FP32', shape: [1, 3, height, width], data: values };
}

function swapRedAndBlue(pixels: Uint8Array): Uint8Array {
  const swapped = Uint8Array.from(pixels);
  for (let i = 0; i < swapped.length; i += 3) {
    swapped[i] = pixels[i + 2] ?? 0;
    swapped[i + 2] = pixels[i] ?? 0;
  }
  return swapped;
}
