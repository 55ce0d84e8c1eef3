import { escapeUriPath } from '@smithy/core/protocols';
import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { BufferPool } from './buffer-pool';
import { checksumOfParts, PART_BYTES, sha256, splitIntoParts, type PartRange } from './checksum';
import { FileChangedError, PreconditionFailedError, S3Error } from './errors';
import {
  CONCURRENCY,
  quoted,
  Requester,
  RequestError,
  SinkError,
  type Answer,
  type S3Request,
  type Sink,
} from './requester';
import { WAIT_FOR_WRITER, withFile, type ReadBytes } from './source';
import type { ListedObject, PutCondition, StoreOptions, TakeBytes, UploadOptions, Written } from './types';
import { getElements, getText } from './xml';

export { checksumOfBytes, PART_BYTES } from './checksum';
export { FileChangedError, PreconditionFailedError, S3Error } from './errors';
export { checksumOfFile } from './source';
export type * from './types';

/** Location of an object, in this bucket or in that of another store. */
export interface StoredObject {
  /** May belong to another server or account. Default: the store that copies. */
  store?: S3Store;
  key: string;
}

interface Content {
  bytes: number;
  read: ReadBytes;
  /** Has S3 copy a part; undefined if it cannot. */
  copyPart?: (part: PartRange, upload: Record<string, string>) => Promise<Written | undefined>;
}

/** Parts of an object that are sent at a time, as far as the buffers suffice, or that S3 copies. */
const PARTS_AT_A_TIME = 16;

const CHECKSUM_MODE = { 'x-amz-checksum-mode': 'ENABLED' };

/**
 * A bucket. Every error is a UserError that names the operation, the object and the endpoint. Transient failures are
 * retried. S3 verifies the SHA-256 of all content that is uploaded.
 */
export class S3Store {
  readonly bucket: string;
  readonly requester: Requester;
  private readonly buffers = new BufferPool();

  /** Most requests that callers should have in flight. */
  readonly concurrency = CONCURRENCY;

  constructor(private readonly options: StoreOptions) {
    this.bucket = options.bucket;
    this.requester = new Requester(options);
  }

  get url(): string {
    return this.requester.url;
  }

  close(): void {
    this.requester.close();
  }

  private name(key: string): string {
    return `s3://${this.bucket}/${key}`;
  }

  /** Creates the bucket if it does not exist. For local servers, which have one region; in the cloud `pulumi up` creates the bucket. */
  async ensureBucket(): Promise<void> {
    const request = { what: `create bucket ${this.bucket}`, method: 'PUT', read: () => undefined };
    await this.requester.send(request).catch((error: unknown) => {
      if (!(error instanceof S3Error && error.code === 'BucketAlreadyOwnedByYou')) throw error;
    });
  }

  /**
   * The object's bytes, or undefined if the object does not exist. They are verified against the stored checksum, if the
   * object was uploaded in one part.
   * @param options `bytes`: expected size, for the deadline; `deadlineMs`: another deadline than that of the store
   */
  async get(
    key: string,
    { bytes = 0, deadlineMs }: { bytes?: number; deadlineMs?: number | undefined } = {},
  ): Promise<{ body: Buffer; etag: string } | undefined> {
    const request = { what: `read ${this.name(key)}`, method: 'GET', key, headers: CHECKSUM_MODE, deadlineMs };
    const read = ({ headers, body }: Answer) => {
      const stored = headers['x-amz-checksum-sha256'];
      if (stored !== undefined && !stored.includes('-') && stored !== sha256(body).toString('base64'))
        throw new RequestError({ code: 'BadDigest', status: 200, text: 'the bytes do not match the stored checksum' });
      return { body, etag: quoted(headers['etag']) };
    };
    return this.requester.send({ ...request, answerBytes: bytes, read }).catch(ignoreMissing);
  }

  /**
   * Lists the objects whose keys begin with `prefix`. The prefix of a folder ends in a slash. The listing is complete, or
   * an error is thrown.
   */
  async list(prefix: string): Promise<ListedObject[]> {
    const objects = new Map<string, ListedObject>();
    const request = { what: `list ${this.name(prefix)}`, method: 'GET' };
    let after: Record<string, string> | undefined = {};
    while (after !== undefined) {
      const query: Record<string, string> = { 'list-type': '2', 'encoding-type': 'url', prefix, ...after };
      const read = (answer: Answer) => readPage(answer, query);
      const page: ReturnType<typeof readPage> = await this.requester.send({ ...request, query, read });
      for (const object of page.objects) objects.set(object.key, object);
      after = page.after;
    }
    return [...objects.values()];
  }

  /**
   * Deletes exactly these objects; those with an ETag only if they still have it. Missing objects are ignored.
   * @throws PreconditionFailedError
   */
  async delete(objects: readonly { key: string; etag?: string | undefined }[]): Promise<void> {
    await forEachLimited(objects, CONCURRENCY, async ({ key, etag }) => {
      const headers: Record<string, string> = etag === undefined ? {} : { 'if-match': etag };
      const request = { what: `delete ${this.name(key)}`, method: 'DELETE', key, headers, read: () => undefined };
      await this.requester.send(request).catch(async (error: unknown) => {
        const isChanged = error instanceof S3Error && error.status === 412;
        if (!isChanged) ignoreMissing(error);
        // Some servers refuse to delete a missing object because of its ETag.
        if (!isChanged || (await this.head(key)) === undefined) return;
        throw new PreconditionFailedError(`cannot delete ${this.name(key)}: another program wrote it in the meantime`, {
          hint: 'run the command again; it then starts from the new content of the bucket',
        });
      });
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
    for (const { start, bytes } of splitIntoParts(head.bytes))
      yield await this.readRange(key, start, Buffer.allocUnsafeSlow(bytes), head.etag);
  }

  /**
   * The metadata of an object; undefined if it does not exist. `stored` is its checksum as S3 stores it, which depends on
   * the parts in which the object was uploaded.
   */
  private async head(key: string) {
    const what = `read the metadata of ${this.name(key)}`;
    const read = ({ headers }: Answer) => ({
      bytes: Number(headers['content-length']),
      etag: quoted(headers['etag']),
      stored: headers['x-amz-checksum-sha256'] ?? '',
    });
    const request = { what, method: 'HEAD', key, headers: CHECKSUM_MODE, read };
    return this.requester.send(request).catch(async (error: unknown) => {
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
  private async readRange(key: string, start: number, buffer: Buffer, etag?: string): Promise<Buffer> {
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

  /**
   * The object's checksum as checksumOfBytes computes it. Uses the checksum that S3 stores if the object was uploaded
   * in the same number of parts; otherwise reads the bytes. If the object's size is not `bytes`, returns a text that
   * equals no checksum.
   * @returns undefined if the object does not exist
   */
  async checksum(key: string, bytes: number): Promise<string | undefined> {
    return (await this.lookUp(key, bytes))?.checksum;
  }

  private async lookUp(key: string, bytes: number): Promise<Written | undefined> {
    const head = await this.head(key);
    if (head === undefined) return undefined;
    const { etag, stored } = head;
    // The content differs, so its bytes are not read.
    if (head.bytes !== bytes) return { etag, checksum: `${head.bytes} bytes` };
    const parts = splitIntoParts(bytes).length;
    if (stored !== '' && stored.split('-')[1] === (parts === 1 ? undefined : String(parts)))
      return { etag, checksum: stored };
    const digests: Buffer[] = [];
    for await (const part of this.read(key)) digests.push(sha256(part));
    return { etag, checksum: checksumOfParts(digests) };
  }

  /**
   * Writes bytes, which must not change until the promise settles.
   * @throws PreconditionFailedError
   */
  async putBytes(
    key: string,
    body: Uint8Array,
    condition?: PutCondition,
    { deadlineMs }: Pick<UploadOptions, 'deadlineMs'> = {},
  ): Promise<Written> {
    if (body.byteLength <= PART_BYTES) return this.putObject(key, body, { condition, deadlineMs });
    const read: ReadBytes = (start, { byteLength }) => Promise.resolve(body.subarray(start, start + byteLength));
    return this.putParts(key, { bytes: body.byteLength, read }, { condition });
  }

  /**
   * Writes a file, a large one in parts.
   * @throws PreconditionFailedError, FileChangedError
   */
  async putFile(key: string, { path, bytes }: { path: string; bytes: number }, options: UploadOptions = {}) {
    return withFile(path, bytes, (read) => this.put(key, { bytes, read }, options));
  }

  private async put(key: string, content: Content, options: UploadOptions): Promise<Written> {
    if (content.bytes > PART_BYTES) return this.putParts(key, content, options);
    return this.buffers.lend(content.bytes, async (buffer) =>
      this.putObject(key, await content.read(0, buffer), options),
    );
  }

  /** Writes an object that fits into one request. */
  private async putObject(key: string, body: Uint8Array, options: UploadOptions): Promise<Written> {
    const digest = sha256(body);
    const checksum = digest.toString('base64');
    this.requireContent(key, checksum, options);
    const headers = { ...this.encryption(), ...getCondition(options.condition) };
    const { deadlineMs } = options;
    try {
      const written = await this.send(key, `write ${this.name(key)}`, body, digest, { headers, deadlineMs });
      options.onBytes?.(body.byteLength);
      return written;
    } catch (error) {
      return this.acceptOurs(key, body.byteLength, checksum, options, error);
    }
  }

  private send(
    key: string,
    what: string,
    body: Uint8Array,
    digest: Buffer,
    { headers = {}, query = {}, deadlineMs }: Partial<Pick<S3Request<unknown>, 'headers' | 'query' | 'deadlineMs'>>,
  ): Promise<Written> {
    const checksum = digest.toString('base64');
    return this.requester.send({
      ...{ what, method: 'PUT', key, query, body, bodySha256: digest, deadlineMs },
      headers: { 'x-amz-checksum-sha256': checksum, ...headers },
      read: ({ headers: answer }) => {
        requireStored(answer['x-amz-checksum-sha256'], checksum);
        return { etag: quoted(answer['etag']), checksum };
      },
    });
  }

  private encryption(): Record<string, string> {
    const { algorithm, key } = this.options.encryption ?? {};
    return {
      ...(algorithm && { 'x-amz-server-side-encryption': algorithm }),
      ...(key && { 'x-amz-server-side-encryption-aws-kms-key-id': key }),
    };
  }

  /** Writes an object in parts, each of which S3 verifies. If this fails, no part stays. */
  private async putParts(key: string, { bytes, read, copyPart }: Content, options: UploadOptions): Promise<Written> {
    const request = { what: `write ${this.name(key)}`, method: 'POST', key };
    const begin = { ...this.encryption(), 'x-amz-checksum-algorithm': 'SHA256', 'x-amz-checksum-type': 'COMPOSITE' };
    const uploadId = await this.requester.send({
      ...{ ...request, query: { uploads: '' }, headers: begin },
      read: ({ body }) => requireText(body.toString(), 'UploadId'),
    });
    const sendPart = ({ number, start, bytes: length }: PartRange, query: Record<string, string>) =>
      this.buffers.lend(length, async (buffer) => {
        const body = await read(start, buffer);
        return this.send(key, `write part ${number} of ${this.name(key)}`, body, sha256(body), { query });
      });
    const parts: Written[] = [];
    let sent = 0;
    let checksum = '';
    try {
      await forEachLimited(splitIntoParts(bytes), PARTS_AT_A_TIME, async (part) => {
        const query = { partNumber: String(part.number), uploadId };
        parts[part.number - 1] = (await copyPart?.(part, query)) ?? (await sendPart(part, query));
        options.onBytes?.((sent += part.bytes));
      });
      checksum = checksumOfParts(parts.map((part) => Buffer.from(part.checksum, 'base64')));
      this.requireContent(key, checksum, options);
      // Not every server supports conditions on requests other than PUT.
      await this.requireCondition(key, options.condition);
      const list = parts.map(
        (part, i) =>
          `<Part><PartNumber>${i + 1}</PartNumber><ETag>${part.etag}</ETag><ChecksumSHA256>${part.checksum}</ChecksumSHA256></Part>`,
      );
      return await this.requester.send({
        ...{ ...request, query: { uploadId } },
        headers: { ...getCondition(options.condition), 'x-amz-mp-object-size': String(bytes) },
        body: Buffer.from(`<CompleteMultipartUpload>${list.join('')}</CompleteMultipartUpload>`),
        // Some servers join all bytes before they answer, so allow time for them.
        answerBytes: bytes,
        read: ({ body }) => {
          requireStored(getText(body.toString(), 'ChecksumSHA256'), checksum);
          return { etag: quoted(requireText(body.toString(), 'ETag')), checksum };
        },
      });
    } catch (failure) {
      const abort = { ...request, method: 'DELETE', query: { uploadId }, read: () => undefined };
      // Errors of the abort are ignored, so that the cause is reported. The bucket's lifecycle deletes what remains.
      await this.requester.send(abort).catch(() => undefined);
      return this.acceptOurs(key, bytes, checksum, options, failure);
    }
  }

  /** @throws S3Error */
  private async requireCondition(key: string, condition: PutCondition): Promise<void> {
    const present = condition === undefined ? undefined : await this.head(key);
    if (condition === undefined || ('ifAbsent' in condition ? !present : present?.etag === condition.ifEtag)) return;
    throw new S3Error(`write ${this.name(key)}`, this.url, { code: 'PreconditionFailed', status: 412 });
  }

  /**
   * Handles the failure of a write. If it was refused, perhaps because an earlier try had succeeded whose answer was lost,
   * it counts as successful if the present object has our content.
   */
  private async acceptOurs(
    key: string,
    bytes: number,
    checksum: string,
    { condition }: UploadOptions,
    failure: unknown,
  ): Promise<Written> {
    const { status, code = '' } = failure instanceof S3Error ? failure : {};
    const isLost = code === 'NoSuchUpload';
    const isGone = code === 'NoSuchKey' && condition !== undefined && 'ifEtag' in condition;
    const isRefused = condition !== undefined && (status === 412 || code === 'ConditionalRequestConflict');
    if (!isLost && !isGone && !isRefused) throw failure;
    const found = await this.lookUp(key, bytes);
    if (found?.checksum === checksum) return found;
    if (isLost) throw failure;
    throw new PreconditionFailedError(`cannot write ${this.name(key)}: another program wrote it in the meantime`, {
      hint: 'check its present content, then run the command again',
      cause: failure,
    });
  }

  private requireContent(key: string, checksum: string, { checksum: expected = checksum }: UploadOptions): void {
    if (expected === checksum) return;
    throw new FileChangedError(`cannot write ${this.name(key)}: the content changed after its checksum was computed`, {
      hint: WAIT_FOR_WRITER,
    });
  }

  /**
   * Copies an object whose content must have the checksum in `options`. S3 copies the parts of a large object; if it
   * cannot, this process downloads and uploads them, as it does with a small one.
   * @throws UserError if the content does not have the expected checksum
   */
  async copy(
    { store = this, key: from }: StoredObject,
    key: string,
    options: UploadOptions & { bytes: number; checksum: string },
  ): Promise<Written> {
    let canCopy = store.options.endpointUrl === this.options.endpointUrl;
    const copyPart: Content['copyPart'] = async ({ number, start, bytes }, query) => {
      if (!canCopy) return undefined;
      const request = {
        ...{ what: `copy part ${number} of ${this.name(key)}`, method: 'PUT', key, query, answerBytes: bytes },
        headers: {
          'x-amz-copy-source': escapeUriPath(`${store.bucket}/${from}`),
          'x-amz-copy-source-range': `bytes=${start}-${start + bytes - 1}`,
        },
        read: ({ body }: Answer) => {
          const checksum = getText(body.toString(), 'ChecksumSHA256') ?? '';
          // Without a SHA-256 of the part; if the source was uploaded in parts, versitygw returns that of the whole source.
          if (checksum === '' || checksum.includes('-')) return undefined;
          return { etag: quoted(requireText(body.toString(), 'ETag')), checksum };
        },
      };
      const part = await this.requester.send(request).catch((error: unknown) => {
        // Our credentials may also lack access to the source; those of the other store may have it.
        if (error instanceof S3Error && (error.code === 'NotImplemented' || error.status === 403)) return undefined;
        throw error;
      });
      if (part === undefined) canCopy = false;
      return part;
    };
    const read: ReadBytes = (start, buffer) => store.readRange(from, start, buffer);
    try {
      return await this.put(key, { bytes: options.bytes, read, copyPart }, options);
    } catch (error) {
      if (!(error instanceof FileChangedError)) throw error;
      throw new UserError(`cannot copy ${store.name(from)}: its content does not match its recorded checksum`, {
        hint: 'publish the model again from its files',
      });
    }
  }
}

function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof S3Error && error.code === 'NoSuchKey')) throw error;
}

function getCondition(condition: PutCondition): Record<string, string> {
  if (condition === undefined) return {};
  return 'ifAbsent' in condition ? { 'if-none-match': '*' } : { 'if-match': condition.ifEtag };
}

function malformed(text: string): RequestError {
  return new RequestError({ code: 'MalformedAnswer', status: 200, text });
}

function requireText(xml: string, name: string): string {
  const text = getText(xml, name);
  if (text === undefined) throw malformed(`the answer has no ${name}`);
  return text;
}

function requireStored(stored: string | undefined, checksum: string): void {
  if (stored === undefined || stored === '' || stored === checksum) return;
  throw new RequestError({ code: 'BadDigest', status: 200, text: `S3 stored the checksum ${stored}` });
}

/** @returns the objects of a page, and the query of the next page if there is one */
function readPage({ body }: Answer, { prefix, ...query }: Record<string, string>) {
  const [page = ''] = getElements(body.toString(), 'ListBucketResult');
  const isEncoded = getText(page, 'EncodingType') === 'url';
  const objects = getElements(page, 'Contents').map((entry): ListedObject => {
    const key = isEncoded ? decode(requireText(entry, 'Key')) : requireText(entry, 'Key');
    const bytes = Number(requireText(entry, 'Size'));
    if (!key.startsWith(prefix ?? '') || !Number.isSafeInteger(bytes))
      throw malformed(`it lists "${key}" with ${bytes} bytes`);
    return { key, bytes, etag: quoted(requireText(entry, 'ETag')) };
  });
  if (requireText(page, 'IsTruncated') === 'false') return { objects };
  const token = getText(page, 'NextContinuationToken');
  if (token === undefined || token === query['continuation-token']) throw malformed('the answer names no next page');
  return { objects, after: { 'continuation-token': token } };
}

function decode(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll('+', ' '));
  } catch {
    throw malformed(`the key "${key}" is not percent-encoded`);
  }
}
