import { UserError } from '../core/errors';
import { sha256, splitIntoParts } from './checksum';
import { S3Error } from './errors';
import { quoted, Requester, RequestError, SinkError, type Answer, type Sink } from './requester';
import type { StoreOptions, TakeBytes } from './types';

/** Parts of an object that `read` requests ahead. */
const PARTS_AHEAD = 8;

const CHECKSUM_MODE = { 'x-amz-checksum-mode': 'ENABLED' };

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
   * object was uploaded in one part.
   * @param options `bytes`: expected size, for the deadline
   */
  async get(key: string, { bytes = 0 }: { bytes?: number } = {}): Promise<{ body: Buffer; etag: string } | undefined> {
    const request = { what: `read ${this.name(key)}`, method: 'GET', key, headers: CHECKSUM_MODE };
    const read = ({ headers, body }: Answer) => {
      const stored = headers['x-amz-checksum-sha256'];
      if (stored !== undefined && !stored.includes('-') && stored !== sha256(body).toString('base64'))
        throw new RequestError({ code: 'BadDigest', status: 200, text: 'the bytes do not match the stored checksum' });
      return { body, etag: quoted(headers['etag']) };
    };
    return this.requester.send({ ...request, answerBytes: bytes, read }).catch(ignoreMissing);
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
   * Reads bytes of an object and passes them on as they arrive. The caller verifies them. If the connection
   * fails, only the rest is requested again. `take` is never called before its last promise has settled, and has settled
   * when this function ends.
   * @returns how many bytes were read, fewer than requested only at the end of the object
   * @throws UserError if the object does not exist; the error of `take`
   */
  async stream(key: string, range: { start: number; bytes: number }, take: TakeBytes): Promise<number> {
    const count = await this.readInto(key, { ...range, count: 0, take });
    if (count === undefined) throw new UserError(`${this.name(key)} does not exist`);
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
    const pending: Promise<Buffer>[] = [];
    for (const { start, bytes } of splitIntoParts(head.bytes)) {
      const reading = this.readRange(key, start, Buffer.allocUnsafeSlow(bytes), head.etag);
      // The promise is awaited below, unless an earlier part fails.
      reading.catch(() => undefined);
      if (pending.push(reading) === PARTS_AHEAD) yield (await pending.shift()) as Buffer;
    }
    for (const reading of pending) yield await reading;
  }

  /**
   * The metadata of an object; undefined if it does not exist. `sha256` is as S3 stores it, which depends on the parts in
   * which the object was uploaded.
   */
  protected async head(key: string) {
    const what = `read the metadata of ${this.name(key)}`;
    const read = ({ headers }: Answer) => ({
      bytes: Number(headers['content-length']),
      etag: quoted(headers['etag']),
      sha256: headers['x-amz-checksum-sha256'],
    });
    return this.requester
      .send({ what, method: 'HEAD', key, headers: CHECKSUM_MODE, read })
      .catch(async (error: unknown) => {
        if (!(error instanceof S3Error) || error.status !== 404) throw error;
        // The answer to HEAD has no body that could report a missing bucket. GET throws if the bucket is missing.
        await this.readInto(key, { start: 0, bytes: 1, count: 0, take: () => undefined });
        return undefined;
      });
  }

  /**
   * Reads a range into memory.
   * @throws UserError if the object does not have the whole range
   */
  protected async readRange(key: string, start: number, buffer: Buffer, etag?: string): Promise<Buffer> {
    if (buffer.byteLength === 0) return buffer;
    let at = 0;
    const take = (chunk: Buffer): undefined => void (at += chunk.copy(buffer, at));
    const count = await this.readInto(key, { start, bytes: buffer.byteLength, count: 0, take }, etag);
    if (count === buffer.byteLength) return buffer;
    throw new UserError(`cannot read ${this.name(key)}: it changed while it was read`, {
      hint: 'run the command again',
    });
  }

  /** @returns how many bytes were read; undefined if the object does not exist */
  private async readInto(key: string, sink: Sink, etag?: string): Promise<number | undefined> {
    const headers: Record<string, string> = etag === undefined ? {} : { 'if-match': etag };
    const request = { what: `read ${this.name(key)}`, method: 'GET', key, headers };
    try {
      return await this.requester.send({ ...request, answerBytes: sink.bytes, sink, read: () => sink.count });
    } catch (error) {
      if (error instanceof SinkError) throw error.cause;
      // The object ends before the range, or the connection failed after the last byte.
      const isWhole = error instanceof S3Error && sink.count === sink.bytes && error.code !== 'RangeIgnored';
      if (isWhole || (error instanceof S3Error && error.status === 416)) return sink.count;
      ignoreMissing(error);
      return undefined;
    }
  }
}

function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof S3Error && error.code === 'NoSuchKey')) throw error;
}
