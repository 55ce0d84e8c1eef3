import type { BufferPool } from './buffer-pool';
import type { Requester } from './requester';

/** A bucket and the resources that its operations share. */
export interface Bucket {
  readonly name: string;
  readonly requester: Requester;
  readonly buffers: BufferPool;
}

/** The object's name in messages. */
export function getName(bucket: Bucket, key: string): string {
  return `s3://${bucket.name}/${key}`;
}
