import { defaultRelease } from '../../src/model/triton-releases';

/** NVIDIA's image of the release in the Dockerfile. */
export const defaultImage = (): string => `nvcr.io/nvidia/tritonserver:${defaultRelease()}-py3`;

/**
 * The official image of Node, from AWS's mirror, which limits no pulls from AWS. With the version in .node-version and
 * the digest of its index for all architectures, so no registry can change the program that has the AWS permissions.
 */
export const AGENT_IMAGE =
  'public.ecr.aws/docker/library/node:24.20.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6';

export function hasDigest(image: string): boolean {
  return /@sha256:[0-9a-f]{64}$/.test(image);
}

const PART = String.raw`[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*`;

/** A host that has a dot or a port, a path, a tag and a digest: https://github.com/distribution/reference (2026-11-30). */
const REFERENCE = new RegExp(
  String.raw`^([\w-]+(\.[\w-]+)+(:\d+)?/|[\w-]+:\d+/)?${PART}(/${PART})*(:(?<tag>\w[\w.-]{0,127}))?(?<digest>@sha256:[0-9a-f]{64})?$`,
);

/** Why a pod cannot run an image, or a later pod another one, unless a digest or a tag other than latest identifies it. */
export function imageFault(image: string): { reason: string } | undefined {
  const reference = REFERENCE.exec(image);
  if (reference === null) return { reason: '' };
  const { tag = 'latest', digest } = reference.groups ?? {};
  return digest === undefined && tag === 'latest' ? { reason: 'it may be another image at the next start' } : undefined;
}
