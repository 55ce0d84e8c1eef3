import { createReadStream } from 'node:fs';
import {
  CreateBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type PutObjectCommandInput,
} from '@aws-sdk/client-s3';
import { UserError } from '../errors';

// The pinned SDK supports Node 20; its notice about later releases is not for the user of this tool.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';

/** What the SDK would print, our errors say better. */
const silent = { trace() {}, debug() {}, info() {}, warn() {}, error() {} };

/** An object as a listing shows it. */
export interface ListedObject {
  key: string;
  bytes: number;
  etag: string;
}

/** Condition under which a PUT is carried out. */
export type PutCondition = { ifAbsent: true } | { ifEtag: string } | undefined;

/** The object did not meet the condition of a PUT: somebody else wrote it. */
export class PreconditionFailed extends Error {
  override readonly name = 'PreconditionFailed';
}

/** Largest object that S3 takes in one PUT. */
export const MAXIMUM_PUT_BYTES = 5 * 1024 ** 3;

export interface StoreOptions {
  bucket: string;
  region?: string;
  /** An S3 API that is not AWS's. */
  endpointUrl?: string;
  credentials?: { accessKeyId: string; secretAccessKey: string };
}

/** The few things we do with a bucket. Every error of S3 comes out as a UserError that names bucket and key. */
export class S3Store {
  readonly bucket: string;
  private readonly client: S3Client;

  constructor(private readonly options: StoreOptions) {
    this.bucket = options.bucket;
    this.client = new S3Client({
      region: options.region ?? process.env['AWS_REGION'] ?? process.env['AWS_DEFAULT_REGION'] ?? 'us-east-1',
      ...(options.endpointUrl === undefined ? {} : { endpoint: options.endpointUrl, forcePathStyle: true }),
      ...(options.credentials === undefined ? {} : { credentials: options.credentials }),
      // Checksums are given with each PUT: ours are computed before the upload, from what was validated.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_SUPPORTED',
      maxAttempts: 5,
      logger: silent,
    });
  }

  close(): void {
    this.client.destroy();
  }

  /** Creates the bucket unless it is there. For local servers; in the cloud that is the work of `pulumi up`. */
  async ensureBucket(): Promise<void> {
    await this.call(`create bucket ${this.bucket}`, async () => {
      try {
        await this.client.send(new CreateBucketCommand({ Bucket: this.bucket }));
      } catch (error) {
        if ((error as Error).name !== 'BucketAlreadyOwnedByYou') throw error;
      }
    });
  }

  /** Everything whose key begins with `prefix`, complete or not at all; a folder's prefix ends in a slash. */
  async list(prefix: string): Promise<ListedObject[]> {
    const objects: ListedObject[] = [];
    for (let token: string | undefined; ;) {
      const page = await this.call(`list s3://${this.bucket}/${prefix}`, () =>
        this.client.send(new ListObjectsV2Command({ Bucket: this.bucket, Prefix: prefix, ContinuationToken: token })),
      );
      for (const { Key, Size, ETag } of page.Contents ?? []) {
        objects.push({ key: Key ?? '', bytes: Size ?? 0, etag: ETag ?? '' });
      }
      if (page.IsTruncated !== true) return objects;
      if (page.NextContinuationToken === undefined) {
        throw new UserError(`list s3://${this.bucket}/${prefix}: the server ended a listing in the middle`);
      }
      token = page.NextContinuationToken;
    }
  }

  /** The object's bytes and ETag, or undefined when it is not there. */
  async get(key: string): Promise<{ body: Buffer; etag: string } | undefined> {
    return this.call(`read s3://${this.bucket}/${key}`, async () => {
      try {
        const { Body, ETag } = await this.client.send(new GetObjectCommand({ Bucket: this.bucket, Key: key }));
        return { body: Buffer.from((await Body?.transformToByteArray()) ?? []), etag: ETag ?? '' };
      } catch (error) {
        if ((error as Error).name === 'NoSuchKey') return undefined;
        throw error;
      }
    });
  }

  /** The object's SHA-256 (base64): as S3 keeps it, else from its bytes. Undefined when it is not there. */
  async sha256(key: string): Promise<string | undefined> {
    return this.call(`look at s3://${this.bucket}/${key}`, async () => {
      try {
        const head = await this.client.send(
          new HeadObjectCommand({ Bucket: this.bucket, Key: key, ChecksumMode: 'ENABLED' }),
        );
        if (head.ChecksumSHA256 !== undefined && head.ChecksumType !== 'COMPOSITE') return head.ChecksumSHA256;
        const { Body } = await this.client.send(new GetObjectCommand({ Bucket: this.bucket, Key: key }));
        return await sha256OfStream(Body as AsyncIterable<Uint8Array>);
      } catch (error) {
        if (['NotFound', 'NoSuchKey'].includes((error as Error).name)) return undefined;
        throw error;
      }
    });
  }

  /**
   * Writes bytes that S3 checks against `sha256` (base64).
   * @returns the object's ETag
   * @throws PreconditionFailed
   */
  async putBytes(key: string, body: Uint8Array, sha256: string, condition?: PutCondition): Promise<string> {
    return this.put(key, { Body: body, ContentLength: body.byteLength, ChecksumSHA256: sha256 }, condition);
  }

  /** As putBytes, from a file. A file that changed since `sha256` was computed is refused by S3. */
  async putFile(key: string, path: string, bytes: number, sha256: string, condition?: PutCondition): Promise<string> {
    // A stream can be read once, so each attempt opens the file anew and the SDK's own retries are off.
    const attempts = 5;
    for (let attempt = 1; ; attempt += 1) {
      const stream = createReadStream(path, { highWaterMark: 1 << 20 });
      try {
        return await this.put(key, { Body: stream, ContentLength: bytes, ChecksumSHA256: sha256 }, condition);
      } catch (error) {
        if (attempt === attempts || !isTransient(error)) throw error;
        await new Promise((resolve) => setTimeout(resolve, 200 * 2 ** attempt * (0.5 + Math.random() / 2)));
      } finally {
        stream.destroy();
      }
    }
  }

  /** Deletes exactly these keys. */
  async delete(keys: readonly string[]): Promise<void> {
    for (let i = 0; i < keys.length; i += 1000) {
      const Objects = keys.slice(i, i + 1000).map((Key) => ({ Key }));
      const result = await this.call(`delete from s3://${this.bucket}`, () =>
        this.client.send(new DeleteObjectsCommand({ Bucket: this.bucket, Delete: { Objects, Quiet: true } })),
      );
      const failed = result.Errors?.[0];
      if (failed !== undefined) throw new UserError(`delete s3://${this.bucket}/${failed.Key}: ${failed.Message}`);
    }
  }

  private async put(key: string, input: Partial<PutObjectCommandInput>, condition: PutCondition): Promise<string> {
    return this.call(`write s3://${this.bucket}/${key}`, async () => {
      const result = await this.client.send(
        new PutObjectCommand({ Bucket: this.bucket, Key: key, ...input, ...conditionHeaders(condition) }),
      );
      return result.ETag ?? '';
    });
  }

  private async call<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw explain(what, error as S3Failure, this.options);
    }
  }
}

function conditionHeaders(condition: PutCondition): Partial<PutObjectCommandInput> {
  if (condition === undefined) return {};
  return 'ifAbsent' in condition ? { IfNoneMatch: '*' } : { IfMatch: condition.ifEtag };
}

interface S3Failure extends Error {
  code?: string;
  $metadata?: { httpStatusCode?: number };
}

const ADVICE: Record<string, string> = {
  NoSuchBucket: 'create it with "pulumi up", or correct --bucket',
  NotFound: 'create it with "pulumi up", or correct --bucket',
  AccessDenied: 'the credentials in use may not do this: check the publisher role and the bucket policy',
  Forbidden: 'the credentials in use may not do this: check the publisher role, the bucket policy and --region',
  InvalidAccessKeyId: 'the access key is unknown to this endpoint: check AWS_ACCESS_KEY_ID or AWS_PROFILE',
  SignatureDoesNotMatch: 'the secret key is wrong: check AWS_SECRET_ACCESS_KEY or AWS_PROFILE',
  ExpiredToken: 'the credentials have expired: sign in again ("aws sso login")',
  ExpiredTokenException: 'the credentials have expired: sign in again ("aws sso login")',
  CredentialsProviderError: 'no credentials found: set AWS_PROFILE, or sign in with "aws sso login"',
  PermanentRedirect: 'the bucket is in another region: set --region',
  AuthorizationHeaderMalformed: 'the bucket is in another region: set --region',
  BadDigest: 'the bytes that arrived are not those that were sent, or the file changed meanwhile: run it again',
  ECONNREFUSED: 'nothing listens there: check --endpoint-url',
  ENOTFOUND: 'the host is unknown: check --endpoint-url, --region and the network',
};

function explain(what: string, error: S3Failure, options: StoreOptions): Error {
  if (error instanceof UserError) return error;
  if (error.name === 'PreconditionFailed' || error.name === 'ConditionalRequestConflict') {
    return new PreconditionFailed(`${what}: somebody else wrote it meanwhile`, { cause: error });
  }
  // The SDK sometimes wraps a system error into one that has its code in the text only.
  const code = error.code ?? /\bE[A-Z]{4,}\b/.exec(error.message)?.[0] ?? error.name;
  const status = error.$metadata?.httpStatusCode;
  const where = options.endpointUrl === undefined ? '' : ` at ${options.endpointUrl}`;
  const detail = [code, status === undefined ? '' : `(HTTP ${status})`, error.message === code ? '' : error.message];
  const hint = ADVICE[code] ?? (status === 301 ? ADVICE['PermanentRedirect'] : undefined);
  return new UserError(`cannot ${what}${where}: ${detail.filter((part) => part !== '').join(' ')}`, {
    ...(hint === undefined ? {} : { hint }),
    cause: error,
  });
}

function isTransient(error: unknown): boolean {
  const cause = (error as Error).cause as S3Failure | undefined;
  const status = cause?.$metadata?.httpStatusCode;
  if (status !== undefined) return status === 429 || status >= 500 || cause?.name === 'RequestTimeout';
  return ['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'TimeoutError', 'ECONNABORTED'].includes(
    cause?.code ?? cause?.name ?? '',
  );
}

async function sha256OfStream(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const { createHash } = await import('node:crypto');
  const hash = createHash('sha256');
  for await (const chunk of stream) hash.update(chunk);
  return hash.digest('base64');
}
