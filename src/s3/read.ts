import { UserError } from '../core/errors';
import { getName, type Bucket } from './bucket';
import { splitIntoParts } from './checksum';
import { changedWhileRead, headObject, readRange } from './objects';

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
  const pending: Promise<Buffer>[] = [];
  const ask = (): void => {
    const part = queue.shift();
    if (part === undefined) return;
    const buffer = Buffer.allocUnsafeSlow(part.bytes);
    const reading = readRange(bucket, key, part.start, buffer, { etag, versionId }).then((count) => {
      if (count !== part.bytes) throw changedWhileRead(bucket, key);
      return buffer;
    });
    // The promise is awaited below, unless an earlier part fails.
    reading.catch(() => undefined);
    pending.push(reading);
  };
  // These parts are requested ahead.
  for (let n = 0; n < bucket.buffers.parts; n++) ask();
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    yield await next;
    ask();
  }
}
