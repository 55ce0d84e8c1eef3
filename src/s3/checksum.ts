import { createHash } from 'node:crypto';

const MIB = 1024 * 1024;

/**
 * Objects up to this size are uploaded in one PUT, larger ones in parts of this size. Changing it changes checksums.
 */
export const PART_BYTES = 8 * MIB;

/** S3's limit per object. */
const MAXIMUM_PARTS = 10_000;

/** One part of an object. Part numbers begin at 1. */
export interface PartRange {
  number: number;
  start: number;
  bytes: number;
}

/** Part size of an object: PART_BYTES, or more if the object would otherwise have over 10,000 parts (from 78 GiB). */
export function partBytesFor(bytes: number): number {
  return Math.max(PART_BYTES, Math.ceil(bytes / MAXIMUM_PARTS / MIB) * MIB);
}

/** The parts of an object; one, unless it is larger than PART_BYTES. */
export function splitIntoParts(bytes: number): PartRange[] {
  const size = partBytesFor(bytes);
  return Array.from({ length: Math.max(1, Math.ceil(bytes / size)) }, (_, i) => ({
    number: i + 1,
    start: i * size,
    bytes: Math.min(size, bytes - i * size),
  }));
}

export function sha256(data: Uint8Array): Buffer {
  return createHash('sha256').update(data).digest();
}

/**
 * Computes the checksum that S3 stores for an object from the SHA-256 digests of its parts. For one part: its digest in
 * base64. For several: the SHA-256 of all digests in base64, followed by `-` and the number of parts.
 */
export function checksumOfParts(digests: readonly Buffer[]): string {
  const [only] = digests;
  if (digests.length === 1 && only !== undefined) return only.toString('base64');
  return `${sha256(Buffer.concat(digests)).toString('base64')}-${digests.length}`;
}

/** The checksum that S3 stores for these bytes when S3Store uploads them. */
export function checksumOfBytes(body: Uint8Array): string {
  return checksumOfParts(
    splitIntoParts(body.byteLength).map(({ start, bytes }) => sha256(body.subarray(start, start + bytes))),
  );
}
