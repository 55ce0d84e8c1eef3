import { createHash } from 'node:crypto';
import type { Settings } from '../settings/types';
import { COMPONENT_NAME } from '../settings/triton';
import { completeOptions } from '../triton/settings';

/** An image of the replicas, and its place in the ECR registry of the account. */
export interface MirroredImage {
  /** The setting that names another source. */
  setting: 'image' | 'agentImage';
  /** As a pod would pull the image without a mirror: `nvcr.io/nvidia/tritonserver:26.11-py3`. */
  source: string;
  /** Digest in the name of the source, `sha256:...`; undefined if the source has only a tag. */
  digest: string | undefined;
  /** Name of the ECR repository. */
  repository: string;
  tag: string;
}

const DIGEST_DIGITS = 12;

/** The images of a stack with mirrorImages. The names depend on nothing but the settings. */
export function mirroredImages({ stack, triton }: Settings): MirroredImage[] {
  const { image, agentImage } = completeOptions(COMPONENT_NAME, triton);
  const describe = (source: string) => ({ source, digest: source.split('@')[1], tag: copyTag(source) });
  // ECR accepts no capital letters.
  const place = (name: string): string => `triton-${stack.toLowerCase()}/${name}`;
  return [
    { setting: 'image', repository: place('tritonserver'), ...describe(image) },
    { setting: 'agentImage', repository: place('node'), ...describe(agentImage) },
  ];
}

/**
 * The digest of the copy in ECR.
 * @param found the digest that the tag has there
 * @returns undefined if there is no copy
 */
export const copyDigest = ({ digest }: MirroredImage, found: string | undefined): string | undefined =>
  found === (digest ?? found) ? found : undefined;

export const missingCopy = ({ source, repository }: MirroredImage): string =>
  `the ECR repository ${repository} has no copy of ${source}`;

/** The command that copies what is missing. */
export const mirrorCommand = (stack: string): string => `npm run mirror-image -- --stack ${stack}`;

/**
 * The tag of an image's copy. Tags are immutable in ECR, so it names what was copied: the digest of the image, or else the
 * image's name. Without that, an image of another registry with the same tag would count as the copy.
 */
export function copyTag(source: string): string {
  const [name = '', digest] = source.split('@');
  const tag = /:([\w][\w.-]*)$/.exec(name)?.[1];
  const origin = digest?.replace('sha256:', '') ?? createHash('sha256').update(name).digest('hex');
  return [tag, origin.slice(0, DIGEST_DIGITS)].filter((part) => part !== undefined).join('-');
}
