import { encodePng, type BgrImage } from '../../media/image';
import { html, type Html } from './html';

/** An image element with lossless embedded data. */
export async function pictureTag(image: BgrImage, alt: string): Promise<Html> {
  const source = `data:image/png;base64,${(await encodePng(image)).toString('base64')}`;
  return html`<img src="${source}" width="${image.width}" height="${image.height}" alt="${alt}" />`;
}
