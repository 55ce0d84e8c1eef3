import type { BufferPool } from './buffer-pool';
import type { Sender } from './requester';

/** A bucket and the resources that its operations share. */
export interface Bucket {
  readonly name: string;
  readonly requester: Sender;
  readonly buffers: BufferPool;
  /** Headers of the encryption, for requests that create an object. */
  readonly encryption: Readonly<Record<string, string>>;
  /** Keys of the multipart uploads that this process is sending. */
  readonly uploading: string[];
}

/** The object's name in messages. */
export function getName(bucket: Bucket, key: string): string {
  return `s3://${bucket.name}/${key}`;
}
