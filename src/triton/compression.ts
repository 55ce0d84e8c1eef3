import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import type { Compression } from './client';

const COMPRESS = { gzip: promisify(zlib.gzip), deflate: promisify(zlib.deflate) };
const UNCOMPRESS = { gzip: promisify(zlib.gunzip), deflate: promisify(zlib.inflate) };

/** Joins and compresses the parts. */
export async function compress(algorithm: Compression, parts: readonly Buffer[]): Promise<Buffer> {
  return COMPRESS[algorithm](Buffer.concat(parts));
}

/** @throws Error if `encoding` is not supported or the data is corrupt */
export async function uncompress(encoding: string, bytes: Buffer): Promise<Buffer> {
  if (encoding !== 'gzip' && encoding !== 'deflate') throw new Error(`unsupported compression ${encoding}`);
  return UNCOMPRESS[encoding](bytes);
}
