import { mirroredImages } from '../images/mirrored-image';
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
      images.map(async ({ source, digest, repository, tag }): Promise<Finding> => {
        const tags = await account.imageDigests(repository);
        if (tags === undefined) return ok(`the stack creates the ECR repository ${repository}`);
        const found = tags.get(tag);
        if (found !== undefined && found === (digest ?? found))
          return ok(`${repository}@${found} is a copy of ${source}`);
        return error(
          `the ECR repository ${repository} has no copy of ${source}`,
          `npm run mirror-image -- --stack ${settings.stack}`,
        );
      }),
    );
  },
};
