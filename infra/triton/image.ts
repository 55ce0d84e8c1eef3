import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';

/** NVIDIA's image of the release in the Dockerfile, the only place that names the release. */
export function defaultImage(): string {
  const file = join(paths.root, 'Dockerfile');
  const release = /^ARG TRITON_RELEASE=(\S+)$/m.exec(readFileSync(file, 'utf8'))?.[1];
  if (release === undefined) throw new Error(`${file} has no line ARG TRITON_RELEASE=...`);
  return `nvcr.io/nvidia/tritonserver:${release}-py3`;
}

/** Whether the image is identified by a digest of its content. */
export function hasDigest(image: string): boolean {
  return /@sha256:[0-9a-f]{64}$/.test(image);
}

/** Whether a later pod runs the same image: the image has a digest, or a tag that is presumably never moved. */
export function isPinned(image: string): boolean {
  if (image.includes('@')) return hasDigest(image);
  const tag = /:([\w][\w.-]{0,127})$/.exec(image)?.[1];
  return tag !== undefined && tag !== 'latest';
}
