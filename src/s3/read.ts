import { UserError } from '../core/errors';
import { getName, type Bucket } from './bucket';
import { splitIntoParts } from './checksum';
import { getObject, headObject, type GotObject } from './objects';

/** Yields an object's bytes in order, part by part, without holding the whole object in memory. */
export async function* readObject(bucket: Bucket, key: string): AsyncGenerator<Buffer> {
  const head = await headObject(bucket, key);
  if (head === undefined) {
    throw new UserError(`cannot read ${getName(bucket, key)}: the object does not exist`, {
      hint: 'check the bucket and the key',
    });
  }
  const { bytes: length, etag, versionId } = head;
  if (length === 0) return;
  const queue = splitIntoParts(length);
  const pending: { bytes: number; got: Promise<GotObject | undefined> }[] = [];
  const ask = (): void => {
    const part = queue.shift();
    if (part === undefined) return;
    const range = `bytes=${part.start}-${part.start + part.bytes - 1}`;
    const got = getObject(bucket, key, { range, etag, bytes: part.bytes, versionId });
    // The promise is awaited below, unless an earlier part fails.
    got.catch(() => undefined);
    pending.push({ bytes: part.bytes, got });
  };
  // These parts are requested ahead.
  for (let n = 0; n < bucket.buffers.parts; n++) ask();
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const got = await next.got;
    if (got?.body.byteLength !== next.bytes) {
      throw new UserError(`cannot read ${getName(bucket, key)}: it changed while it was read`, {
        hint: 'run the command again',
      });
    }
    yield got.body;
    ask();
  }
}
