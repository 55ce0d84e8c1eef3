import { UserError } from '../core/errors';
import { sha256, splitIntoParts } from './checksum';
import { S3Error } from './errors';
import { quoted, Requester, S3RequestError, type WireResponse } from './requester';
import { SinkError } from './send-request';
import type { StoreOptions, TakeBytes } from './types';

/** Parts of an object that `read` requests ahead. */
const PARTS_AHEAD = 8;

export interface GotObject {
  body: Buffer;
  etag: string;
  ageMs: number;
}

/** A part of an object. */
export interface RangeToRead {
  start: number;
  /** At least 1. */
  bytes: number;
  /** ETag that the object must have. */
  etag?: string | undefined;
  /** Version to read. */
  versionId?: string | undefined;
}

/** Metadata of an object, from HEAD. */
export interface ObjectHead {
  bytes: number;
  etag: string;
  /** SHA-256 as S3 stores it, which depends on the parts in which the object was uploaded. */
  sha256: string | undefined;
  versionId: string | undefined;
  /** Last-Modified. */
  modified: Date;
}

/**
 * Reads objects of a bucket. It is all that the agent needs; S3Store also writes. Every error is a UserError that names
 * the operation, the object and the endpoint. Transient failures are retried.
 */
export class S3Reader {
  readonly bucket: string;
  readonly requester: Requester;

  constructor(protected readonly options: StoreOptions) {
    this.bucket = options.bucket;
    this.requester = new Requester(options);
  }

  /** Where requests are sent, for messages. */
  get url(): string {
    return this.requester.url;
  }

  /** Closes all connections. */
  close(): void {
    this.requester.close();
  }

  /** The object's name in messages. */
  protected name(key: string): string {
    return `s3://${this.bucket}/${key}`;
  }

  /**
   * The object's bytes, or undefined if the object does not exist. They are verified against the stored checksum, if the
   * object was uploaded in one part. `ageMs` is the time since it was written, by the server's clock.
   * @param options `bytes`: expected size, for the deadline
   */
  async get(
    key: string,
    { bytes = 0, versionId }: { bytes?: number; versionId?: string } = {},
  ): Promise<GotObject | undefined> {
    const reading = this.requester.send({
      what: `read ${this.name(key)}`,
      method: 'GET',
      key,
      query: getVersionQuery(versionId),
      headers: { 'x-amz-checksum-mode': 'ENABLED' },
      answerBytes: bytes,
      read: (answer) => {
        checkBody(answer);
        return { body: answer.body, etag: quoted(answer.headers['etag']), ageMs: getAge(answer) };
      },
    });
    return unlessMissing(reading);
  }

  /** The first key that begins with the prefix; undefined if there is none. */
  firstKey(prefix: string): Promise<string | undefined> {
    return this.requester.send({
      what: `list ${this.name(prefix)}`,
      method: 'GET',
      query: { 'list-type': '2', 'max-keys': '1', prefix },
      read: ({ body }) => /<Key>([^<]*)<\/Key>/.exec(body.toString('utf8'))?.[1],
    });
  }

  /**
   * Reads bytes of a version of an object and passes them on as they arrive. The caller verifies them. If the connection
   * fails, only the rest is requested again. `take` is never called before its last promise has settled, and has settled
   * when this function ends.
   * @returns how many bytes were read, fewer than requested only at the end of the object
   * @throws UserError if the version does not exist; the error of `take`
   */
  async stream(key: string, range: RangeToRead & { versionId: string }, take: TakeBytes): Promise<number> {
    const count = await this.streamRange(key, range, take);
    if (count === undefined) throw new UserError(`version ${range.versionId} of ${this.name(key)} does not exist`);
    return count;
  }

  /**
   * The object's bytes in order, for objects that are too large to hold in memory.
   * @throws UserError if the object does not exist, or changes meanwhile
   */
  async *read(key: string): AsyncGenerator<Buffer> {
    const head = await this.head(key);
    if (head === undefined) {
      throw new UserError(`cannot read ${this.name(key)}: the object does not exist`, {
        hint: 'check the bucket and the key',
      });
    }
    const queue = head.bytes === 0 ? [] : splitIntoParts(head.bytes);
    const pending: Promise<Buffer>[] = [];
    const ask = (): void => {
      const part = queue.shift();
      if (part === undefined) return;
      const buffer = Buffer.allocUnsafeSlow(part.bytes);
      const reading = this.readRange(key, part.start, buffer, head).then((count) => {
        if (count === part.bytes) return buffer;
        throw new UserError(`cannot read ${this.name(key)}: it changed while it was read`, {
          hint: 'run the command again',
        });
      });
      // The promise is awaited below, unless an earlier part fails.
      reading.catch(() => undefined);
      pending.push(reading);
    };
    for (let n = 0; n < PARTS_AHEAD; n++) ask();
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
      yield await next;
      ask();
    }
  }

  /** @returns undefined if the object does not exist */
  protected async head(key: string): Promise<ObjectHead | undefined> {
    try {
      return await this.requester.send({
        what: `read the metadata of ${this.name(key)}`,
        method: 'HEAD',
        key,
        headers: { 'x-amz-checksum-mode': 'ENABLED' },
        read: ({ headers }) => ({
          bytes: Number(headers['content-length']),
          etag: quoted(headers['etag']),
          sha256: headers['x-amz-checksum-sha256'],
          versionId: getVersionId(headers),
          modified: new Date(headers['last-modified'] ?? 0),
        }),
      });
    } catch (error) {
      if (!(error instanceof S3Error) || error.status !== 404) throw error;
      // The answer to HEAD has no body that could report a missing bucket. GET throws if the bucket is missing.
      await this.readRange(key, 0, Buffer.alloc(1));
      return undefined;
    }
  }

  /** Reads a range into memory; see streamRange. */
  protected readRange(
    key: string,
    start: number,
    buffer: Buffer,
    of: Pick<RangeToRead, 'etag' | 'versionId'> = {},
  ): Promise<number | undefined> {
    let at = 0;
    return this.streamRange(key, { ...of, start, bytes: buffer.byteLength }, (chunk) => {
      at += chunk.copy(buffer, at);
      return undefined;
    });
  }

  /** @returns how many bytes were read; undefined if the object does not exist */
  private async streamRange(
    key: string,
    { start, bytes, etag, versionId }: RangeToRead,
    take: TakeBytes,
  ): Promise<number | undefined> {
    let count = 0;
    const reading = this.requester.send({
      what: `read ${this.name(key)}`,
      method: 'GET',
      key,
      query: getVersionQuery(versionId),
      get headers(): Readonly<Record<string, string>> {
        const range = `bytes=${start + count}-${start + bytes - 1}`;
        return etag === undefined ? { range } : { range, 'if-match': etag };
      },
      answerBytes: bytes,
      sink: {
        get at() {
          return start + count;
        },
        get leftBytes() {
          return bytes - count;
        },
        take: (chunk) => {
          count += chunk.byteLength;
          return take(chunk);
        },
      },
      read: () => count,
    });
    return unlessMissing(reading).catch((error: unknown) => {
      if (error instanceof SinkError) throw error.cause;
      // The object ends before the range, or the connection failed after the last byte.
      const isWhole = error instanceof S3Error && count === bytes && error.code !== 'RangeIgnored';
      if (isWhole || (error instanceof S3Error && error.status === 416)) return count;
      throw error;
    });
  }
}

const getVersionQuery = (versionId: string | undefined): Record<string, string> | undefined =>
  versionId === undefined ? undefined : { versionId };

async function unlessMissing<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof S3Error && (error.code === 'NoSuchKey' || error.code === 'NoSuchVersion')) return undefined;
    throw error;
  }
}

function checkBody({ headers, body }: WireResponse): void {
  const stored = headers['x-amz-checksum-sha256'];
  if (stored === undefined || stored.includes('-') || stored === sha256(body).toString('base64')) return;
  throw new S3RequestError({
    code: 'BadDigest',
    text: 'the received bytes do not match the checksum that S3 stores',
  });
}

/** Age by the server's clock only. An object without these dates counts as new. */
function getAge({ headers }: WireResponse): number {
  const age = Date.parse(headers['date'] ?? '') - Date.parse(headers['last-modified'] ?? '');
  return Number.isNaN(age) ? 0 : Math.max(0, age);
}

/** Version id in an answer. S3 sends "null" for buckets without versioning. */
export function getVersionId(headers: WireResponse['headers']): string | undefined {
  const version = headers['x-amz-version-id'];
  return version === 'null' || version === '' ? undefined : version;
}
