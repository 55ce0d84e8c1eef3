import { createHash } from 'node:crypto';

const MIB = 1024 * 1024;

/** Up to this size an object goes in one PUT; larger ones go in parts of this size. Changing it changes checksums. */
export const PART_BYTES = 8 * MIB;

/** What S3 allows of one object. */
const MAXIMUM_PARTS = 10_000;

/** A piece of an object: part numbers begin at 1. */
export interface Part {
  number: number;
  start: number;
  bytes: number;
}

/** Size of the parts of an object: always PART_BYTES, but for objects of more than 10,000 such parts (78 GiB). */
export function partBytesFor(bytes: number): number {
  return Math.max(PART_BYTES, Math.ceil(bytes / MAXIMUM_PARTS / MIB) * MIB);
}

/** The parts of an object; one, unless it is larger than PART_BYTES. */
export function partsOf(bytes: number): Part[] {
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
 * The checksum that S3 keeps of an object from the SHA-256 of its parts: of one part itself in base64, of several
 * the SHA-256 of them all with their number behind it.
 */
export function checksumOfParts(digests: readonly Buffer[]): string {
  const [only] = digests;
  if (digests.length === 1 && only !== undefined) return only.toString('base64');
  return `${sha256(Buffer.concat(digests)).toString('base64')}-${digests.length}`;
}

/** Checksum of bytes, as S3 keeps it when they are uploaded by S3Store. */
export function checksumOfBytes(body: Uint8Array): string {
  return checksumOfParts(
    partsOf(body.byteLength).map(({ start, bytes }) => sha256(body.subarray(start, start + bytes))),
  );
}
