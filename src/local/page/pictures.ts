import { encodePng, type BgrImage } from '../../media/image';
import { html, type Html } from './html';

/** A picture with every pixel as it is, inside of the page. */
export async function pictureTag(image: BgrImage, alt: string): Promise<Html> {
  const source = `data:image/png;base64,${(await encodePng(image)).toString('base64')}`;
  return html`<img src="${source}" width="${image.width}" height="${image.height}" alt="${alt}" />`;
}
