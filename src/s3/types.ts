/** Where the bucket is, and how patient to be with it. */
export interface StoreOptions {
  bucket: string;
  /** Default: AWS_REGION, AWS_DEFAULT_REGION, us-east-1. */
  region?: string;
  /** An S3 API that is not AWS's; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS itself. */
  endpointUrl?: string;
  /** Default: the environment, then the AWS credential chain (profiles, SSO, roles of pods and machines). */
  credentials?: Credentials;
  /** Connections at most; default 32. */
  concurrency?: number;
  /** Tries of one request; default 10. */
  attempts?: number;
  /** Longest time without a byte moving, in ms; default 30,000. */
  idleTimeoutMs?: number;
  /** All tries of one request together, in ms, to which time for its bytes is added; default 120,000. */
  deadlineMs?: number;
}

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** An object as a listing shows it. */
export interface ListedObject {
  key: string;
  bytes: number;
  etag: string;
  /** Set when it was written in the seconds before the listing, by the server's clock. */
  recent?: true;
}

/** Condition under which something is written: nothing is there yet, or just this. */
export type PutCondition = { ifAbsent: true } | { ifEtag: string } | undefined;

/** What a write left in the bucket. */
export interface Written {
  etag: string;
  /** As checksumOfBytes and checksumOfFile give it. */
  checksum: string;
  /** Of a bucket with versioning. */
  versionId?: string;
}
