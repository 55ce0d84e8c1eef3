import { copyDigest, mirrorCommand, mirroredImages, missingCopy, type MirroredImage } from '../images/mirrored-image';
import { error, ok, warning, type Check, type Finding } from './check';
import { askRegistry } from './registry';
import { WebError, type Web } from './web';

/**
 * The copies in ECR, or the images in the registries that pods pull from. The nodes may reach another registry than this
 * machine, which only they know.
 */
export const imagesCheck: Check = {
  name: 'images',
  run: async ({ settings, account, web }) => {
    const images = mirroredImages(settings);
    if (!settings.mirrorImages) return Promise.all(images.map((image) => judgeSource(web, image)));
    return Promise.all(
      images.map(async (image): Promise<Finding> => {
        const { source, repository, tag } = image;
        const tags = await account.imageDigests(repository);
        if (tags === undefined) return ok(`the stack creates the ECR repository ${repository}`);
        const found = copyDigest(image, tags.get(tag));
        if (found !== undefined) return ok(`${repository}@${found} is a copy of ${source}`);
        return error(missingCopy(image), mirrorCommand(settings.stack));
      }),
    );
  },
};

async function judgeSource(web: Web, { source, setting }: MirroredImage): Promise<Finding> {
  const unchecked = (reason: string): Finding =>
    warning(
      `${source} is not checked: ${reason}`,
      `check that the nodes may pull it; with an account: docker manifest inspect ${source}`,
    );
  try {
    const answer = await askRegistry(web, source);
    if (answer.kind === 'unknown') return unchecked(answer.reason);
    if (answer.kind === 'found') return ok(`${source} exists, with the digest ${answer.digest ?? '(not reported)'}`);
  } catch (cause) {
    if (!(cause instanceof WebError)) throw cause;
    return unchecked(cause.message);
  }
  return error(`${source} does not exist, so nodes cannot pull it`, `correct ${setting} in the stack file`);
}
