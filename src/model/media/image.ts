import sharp, { type Sharp } from 'sharp';
import type { Tensor } from '../../triton/tensor';

/** A picture in OpenCV's format: rows of pixels, each blue, green, red. */
export interface BgrImage {
  width: number;
  height: number;
  /** height x width x 3 bytes. */
  data: Uint8Array;
}

/**
 * Reads a picture file; transparency is dropped.
 * @param size the middle of the picture is scaled to this size without distortion; default: the whole picture
 */
export async function readImage(path: string, size?: { width: number; height: number }): Promise<BgrImage> {
  const picture = sharp(path).rotate();
  const { data, info } = await (size === undefined ? picture : picture.resize(size))
    .removeAlpha()
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, data: swapRedAndBlue(data) };
}

/** Writes a picture in the format of the file's extension. */
export async function writeImage(path: string, image: BgrImage): Promise<void> {
  await encoder(image).toFile(path);
}

/** Encodes a picture as PNG, which keeps every pixel. */
export function encodePng(image: BgrImage): Promise<Buffer> {
  return encoder(image).png({ compressionLevel: 9 }).toBuffer();
}

function encoder({ width, height, data }: BgrImage): Sharp {
  return sharp(swapRedAndBlue(data), { raw: { width, height, channels: 3 } });
}

/** The input tensor of pre_gfpgan and the ensemble: UINT8 [height, width, 3], BGR. */
export function pixelTensor(name: string, { width, height, data }: BgrImage): Tensor {
  return { name, datatype: 'UINT8', shape: [height, width, 3], data };
}

function swapRedAndBlue(pixels: Uint8Array): Uint8Array {
  const swapped = Uint8Array.from(pixels);
  for (let i = 0; i < swapped.length; i += 3) {
    swapped[i] = pixels[i + 2] ?? 0;
    swapped[i + 2] = pixels[i] ?? 0;
  }
  return swapped;
}
