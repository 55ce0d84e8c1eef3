/** Encryption that a write asks for, because the policy of a bucket may require the header. */
export interface Encryption {
  algorithm: 'AES256' | 'aws:kms' | 'aws:kms:dsse';
  /** Id or ARN of a KMS key. Default: the key of the bucket. */
  key?: string | undefined;
}

/** Takes the next bytes of an object. A promise delays the following bytes until it is fulfilled. */
export type TakeBytes = (chunk: Buffer) => Promise<void> | undefined;

/** Location of a bucket, credentials and limits. */
export interface StoreOptions {
  bucket: string;
  /** Default: AWS_REGION, AWS_DEFAULT_REGION, the AWS profile, us-east-1. If S3 names another region, that is used. */
  region?: string;
  /** URL of an S3 API other than AWS's; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the AWS profile, then AWS. */
  endpointUrl?: string;
  /** Default: the environment, then the AWS credential chain (profiles, SSO, roles of pods and machines). */
  credentials?: Credentials;
  /** Default: the encryption of the bucket. */
  encryption?: Encryption | undefined;
  /** Most tries of one request. Default: 10, and if the network or the server is unavailable, until the deadline. */
  attempts?: number;
  /** Longest time without data in either direction, in ms; default 30,000. */
  idleTimeoutMs?: number;
  /** Time for all tries of one request, in ms, plus time to transfer its bytes; default 120,000. */
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
}

/** Condition of a write: the object does not exist yet, or has this ETag. */
export type PutCondition = { ifAbsent: true } | { ifEtag: string } | undefined;

/** The object that a write created, or found. */
export interface Written {
  etag: string;
  /** As checksumOfBytes and checksumOfFile compute it. */
  checksum: string;
}

export interface UploadOptions {
  condition?: PutCondition;
  /** Expected checksum of the content. */
  checksum?: string;
  /** For all tries of one request, in ms; default: that of the store. */
  deadlineMs?: number | undefined;
  /** Receives the number of bytes of this object that S3 has so far. */
  onBytes?: (sent: number) => void;
}
