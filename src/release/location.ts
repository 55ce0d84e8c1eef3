import { UsageError } from '../core/errors';

/** A model repository in S3. The folders of its models are directly under the prefix. */
export interface RepositoryLocation {
  bucket: string;
  /** Without leading and trailing slashes, never empty. */
  prefix: string;
}

/** The form `s3://BUCKET/PREFIX`, which `parseLocation` checks further. */
export const LOCATION = /^s3:\/\/[^/\s]+\/[^/\s]\S*$/;

/** Bucket names that S3 accepts: 3 to 63 lower-case letters, digits, dots and hyphens. */
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

/**
 * Parses `s3://bucket/prefix`.
 * A prefix is required, because releases are stored beside it: Triton treats every top-level folder as a model.
 * @param flag the flag that `text` was given with, for messages
 */
export function parseLocation(text: string, flag = 'bucket'): RepositoryLocation {
  const match = /^s3:\/\/([^/]*)\/*(.*?)\/*$/.exec(text);
  const [, bucket = '', prefix = ''] = match ?? [];
  const refuse = (problem: string, hint: string): never => {
    throw new UsageError(`--${flag} ${text}: ${problem}`, { hint });
  };
  if (match === null) refuse('not an S3 location', 'write it as s3://BUCKET/PREFIX');
  if (text.startsWith('s3://arn:')) {
    const hint = 'write the name of the bucket, or the alias of the access point, which ends with -s3alias';
    refuse('ARNs of access points are not supported', hint);
  }
  if (!BUCKET.test(bucket) || bucket.includes('..')) {
    const hint = '3 to 63 lower-case letters, digits, dots and hyphens, beginning and ending with a letter or digit';
    refuse(`"${bucket}" cannot be a bucket name`, hint);
  }
  if (bucket.endsWith('--x-s3')) {
    const hint = 'use a general purpose bucket: directory buckets list keys unsorted and need another sign-in';
    refuse(`"${bucket}" is a directory bucket (S3 Express One Zone)`, hint);
  }
  if (prefix === '') {
    const hint = `write for example s3://${bucket}/models; the publisher stores releases in s3://${bucket}/models.releases`;
    refuse('the prefix is missing', hint);
  }
  if (prefix.endsWith('.releases')) {
    const hint = `the repository is s3://${bucket}/${prefix.slice(0, -'.releases'.length)}`;
    refuse('this prefix is reserved, because the publisher stores the releases of a repository under it', hint);
  }
  // Without *, which the policies of the roles would take for any text.
  if (!/^[\w!.'()-]+(\/[\w!.'()-]+)*$/.test(prefix)) {
    const hint = "letters, digits and - _ . ! ' ( ) between single slashes";
    refuse(`prefix "${prefix}" has an empty part or characters that Triton cannot read`, hint);
  }
  return { bucket, prefix };
}

export function formatLocation(location: RepositoryLocation): string {
  return `s3://${location.bucket}/${location.prefix}`;
}

/**
 * The publisher stores its own objects beside the repository, never in it, because a Triton that loads all models
 * treats each folder of the repository as a model.
 */
export function releasesPrefix(location: RepositoryLocation): string {
  return `${location.prefix}.releases`;
}

/** The pointer to the current release. */
export const headKey = (location: RepositoryLocation): string => `${releasesPrefix(location)}/head.json`;

export const releaseKey = (location: RepositoryLocation, id: string): string =>
  `${releasesPrefix(location)}/${id}.json`;

/** How releases compared with those before them, while replicas tried them. */
export const bakesPrefix = (location: RepositoryLocation): string => `${releasesPrefix(location)}/bakes/`;

/** The files of releases, by content. */
export const filesPrefix = (location: RepositoryLocation): string => `${releasesPrefix(location)}/files/`;

/**
 * The key of a file, by its content and by the number of prunes before it was planned: a prune deletes only keys with
 * smaller numbers, so no later one, and no late request of one, deletes it. test/proof/Publish.tla specifies this.
 * @param sweep as in head.json
 */
export const fileKey = (location: RepositoryLocation, checksum: string, sweep: number): string =>
  `${filesPrefix(location)}${checksum.replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '')}.${sweep}`;

/** The number of prunes in the key of a file. */
export const sweepOf = (key: string): number => Number(/\.(\d+)$/.exec(key)?.[1] ?? 0);

/** What the publisher has written into the repository. */
export const viewKey = (location: RepositoryLocation): string => `${releasesPrefix(location)}/view.json`;
