import type { Buffers } from './buffers';
import type { Requester } from './requester';

/** What the operations on a bucket share. */
export interface Bucket {
  readonly name: string;
  readonly requester: Requester;
  readonly buffers: Buffers;
}

/** An object as messages name it. */
export function nameOf(bucket: Bucket, key: string): string {
  return `s3://${bucket.name}/${key}`;
}
