import { UserError } from '../../src/core/errors';
import type { StateResources } from '../cluster/live-objects';
import type { Settings } from '../settings/types';
import { copyDigest, mirrorCommand, mirroredImages, missingCopy } from './mirrored-image';

/** An image in an ECR repository. */
export interface ImageId {
  imageTag?: string;
  imageDigest?: string;
}

const REPOSITORY = 'aws:ecr/repository:Repository';

/** The settings with copies of the images. */
export interface MirrorUse {
  settings: Settings;
  /** The update creates the repositories: until they have images, pods pull from the source. */
  warning: string | undefined;
}

/**
 * Replaces the images in a copy of the settings by those in ECR, by digest, so that no pod names an image that is missing.
 * @param state of the stack, with the repositories that exist
 * @param listImages lists the images of an ECR repository
 * @throws UserError if a repository exists and lacks the image
 */
export async function useMirror(
  settings: Settings,
  state: StateResources,
  listImages: (repository: string) => Promise<readonly ImageId[]>,
): Promise<MirrorUse> {
  if (!settings.mirrorImages) return { settings, warning: undefined };
  const triton = { ...settings.triton };
  const sources: string[] = [];
  for (const mirrored of mirroredImages(settings)) {
    const { setting, source, repository, tag } = mirrored;
    const live = Object.values(state).find(
      ({ type, outputs }) => type === REPOSITORY && outputs['name'] === repository,
    );
    if (live === undefined) {
      sources.push(source);
      continue;
    }
    const tagged = (await listImages(repository)).find(({ imageTag }) => imageTag === tag);
    const found = copyDigest(mirrored, tagged?.imageDigest);
    if (found === undefined) {
      throw new UserError(`mirrorImages is true, but ${missingCopy(mirrored)}`, {
        hint: `copy it: ${mirrorCommand(settings.stack)}`,
      });
    }
    triton[setting] = `${String(live.outputs['repositoryUrl'])}@${found}`;
  }
  const warning =
    sources.length === 0
      ? undefined
      : `this update creates ECR repositories for ${sources.join(', ')}, and the pods pull from the source until you have run "${mirrorCommand(settings.stack)}" and then "pulumi up" again`;
  return { settings: { ...settings, triton }, warning };
}
