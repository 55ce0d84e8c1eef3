import sharp from 'sharp';
import type { BgrImage } from '../image';
import { html, type Html } from './html';

/** A picture with every pixel as it is, inside of the page. */
export async function pictureTag({ width, height, data }: BgrImage, alt: string): Promise<Html> {
  const rgb = Uint8Array.from(data);
  for (let i = 0; i < rgb.length; i += 3) {
    rgb[i] = data[i + 2] ?? 0;
    rgb[i + 2] = data[i] ?? 0;
  }
  const png = await sharp(rgb, { raw: { width, height, channels: 3 } })
    .png({ compressionLevel: 9 })
    .toBuffer();
  const source = `data:image/png;base64,${png.toString('base64')}`;
  return html`<img src="${source}" width="${width}" height="${height}" alt="${alt}" />`;
}
