import { copyDigest, mirrorCommand, mirroredImages, missingCopy } from '../images/mirrored-image';
import { error, ok, type Check, type Finding } from './check';

/** The copies in ECR. Whether a node can pull from a public registry is known only to the node. */
export const imagesCheck: Check = {
  name: 'images',
  run: async ({ settings, account }) => {
    const images = mirroredImages(settings);
    if (!settings.mirrorImages) {
      return [ok(`not checked: pods pull ${images.map(({ source }) => source).join(', ')} from there`)];
    }
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
