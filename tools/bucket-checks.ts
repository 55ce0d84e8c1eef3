import { randomBytes } from 'node:crypto';
import { forEachLimited } from '../src/core/concurrency';
import { sha256 } from '../src/s3/checksum';
import {
  checksumOfBytes,
  PART_BYTES,
  PreconditionFailedError,
  S3Error,
  S3Store,
  type StoreOptions,
} from '../src/s3/store';

export interface BucketCheckOptions extends StoreOptions {
  /** All objects of the checks are under this prefix, which is deleted afterwards. */
  prefix: string;
  /** Id or ARN of a KMS key to write with. */
  kmsKey?: string | undefined;
  /** Send writes until S3 limits their rate, or 20,000. */
  throttle?: boolean;
}

export interface CheckResult {
  name: string;
  /** Set if the server or its configuration cannot do this. */
  skipped?: string;
  /** Set if the server behaves differently from what the publisher needs. */
  error?: Error;
}

/** A check cannot run on this bucket. */
class SkippedError extends Error {}

function skip(reason: string): never {
  throw new SkippedError(reason);
}

function expectSame(what: string, got: unknown, expected: unknown): void {
  if (JSON.stringify(got) === JSON.stringify(expected)) return;
  throw new Error(`${what}: got ${JSON.stringify(got)} instead of ${JSON.stringify(expected)}`);
}

/** @returns the error of work that must fail */
async function failure(what: string, work: Promise<unknown>): Promise<Error> {
  let error: unknown;
  try {
    await work;
  } catch (caught) {
    error = caught;
  }
  if (error instanceof Error) return error;
  throw new Error(`${what} was accepted`);
}

async function expectRefused(what: string, work: Promise<unknown>): Promise<void> {
  const error = await failure(what, work);
  if (!(error instanceof PreconditionFailedError)) throw error;
}

const BODY = Buffer.from('content');
const OTHER = Buffer.from('other content');

class Checks {
  readonly store: S3Store;
  private readonly large = randomBytes(2 * PART_BYTES + 1);

  constructor(private readonly options: BucketCheckOptions) {
    this.store = new S3Store(options);
  }

  close(): void {
    this.store.close();
  }

  private key(name: string): string {
    return `${this.options.prefix}/${name}`;
  }

  private async put(key: string): Promise<void> {
    await this.store.putBytes(key, BODY);
  }

  private async etag(name: string): Promise<string | undefined> {
    return (await this.getHeaders(name))?.['etag'];
  }

  /** @returns undefined if the object does not exist */
  private async getHeaders(name: string): Promise<Record<string, string> | undefined> {
    const what = `read the metadata of ${name}`;
    const headers = { 'x-amz-checksum-mode': 'ENABLED' };
    const request = { what, method: 'HEAD', key: this.key(name), headers };
    return this.store.requester.send({ ...request, read: (answer) => answer.headers }).catch((error: unknown) => {
      if (error instanceof S3Error && error.status === 404) return undefined;
      throw error;
    });
  }

  private async isSameAfter(name: string, work: Promise<unknown>): Promise<boolean> {
    await work;
    return (await this.etag(name)) !== undefined;
  }

  readonly all: Record<string, () => Promise<void>> = {
    'If-None-Match creates an object once': async () => {
      await this.store.putBytes(this.key('once'), BODY, { ifAbsent: true });
      await expectRefused('a second write', this.store.putBytes(this.key('once'), OTHER, { ifAbsent: true }));
    },
    'If-Match replaces an object with the ETag': async () => {
      const { etag } = await this.store.putBytes(this.key('replaced'), BODY);
      await this.store.putBytes(this.key('replaced'), OTHER, { ifEtag: etag });
      expectSame('content', (await this.store.get(this.key('replaced')))?.body.toString(), OTHER.toString());
    },
    'If-Match rejects an earlier ETag': async () => {
      const { etag } = await this.store.putBytes(this.key('stale'), BODY);
      await this.store.putBytes(this.key('stale'), OTHER);
      const late = this.store.putBytes(this.key('stale'), Buffer.from('late'), { ifEtag: etag });
      await expectRefused('a write with an earlier ETag', late);
    },
    'If-Match rejects a missing object': () =>
      expectRefused('a write', this.store.putBytes(this.key('none'), BODY, { ifEtag: '"0"' })),
    'one of 8 concurrent writers wins': async () => {
      const writes = Array.from({ length: 8 }, (_, i) =>
        this.store.putBytes(this.key('race'), Buffer.from(`writer ${i}`), { ifAbsent: true }),
      );
      const results = await Promise.allSettled(writes);
      expectSame('winners', results.filter(({ status }) => status === 'fulfilled').length, 1);
    },
    'a wrong checksum is rejected': async () => {
      const wrong = this.store.requester.send({
        what: 'write with a wrong checksum',
        method: 'PUT',
        key: this.key('damaged'),
        headers: { 'x-amz-checksum-sha256': sha256(OTHER).toString('base64') },
        body: BODY,
        read: () => undefined,
      });
      await failure('a wrong checksum', wrong);
      expectSame('object', await this.etag('damaged'), undefined);
    },
    'HEAD returns the SHA-256 of an object': async () => {
      await this.store.putBytes(this.key('summed'), BODY);
      const stored = (await this.getHeaders('summed'))?.['x-amz-checksum-sha256'];
      if (stored === undefined) skip('the server does not store checksums');
      expectSame('checksum', stored, checksumOfBytes(BODY));
    },
    'a listing returns odd keys with the ETags of the writes': async () => {
      const names = ['odd/a b', 'odd/a+b', 'odd/ü&<>', "odd/(1)'*!", 'odd/100%'];
      const written = await Promise.all(names.map((name) => this.store.putBytes(this.key(name), BODY)));
      const listed = new Map((await this.store.list(this.key('odd/'))).map(({ key, etag }) => [key, etag]));
      for (const [i, name] of names.entries()) expectSame(name, listed.get(this.key(name)), written[i]?.etag);
    },
    'a listing of 1,001 objects has two pages': async () => {
      const keys = Array.from({ length: 1001 }, (_, i) => this.key(`many/${String(i).padStart(4, '0')}`));
      await forEachLimited(keys, this.store.concurrency, (key) => this.put(key));
      expectSame('keys', (await this.store.list(this.key('many/'))).length, keys.length);
    },
    'a multipart upload has the checksum of its parts': async () => {
      const { checksum } = await this.store.putBytes(this.key('large'), this.large);
      expectSame('checksum', await this.store.checksum(this.key('large'), this.large.byteLength), checksum);
    },
    'ranges of a large object are read in order': async () => {
      const pieces: Buffer[] = [];
      for await (const piece of this.store.read(this.key('large'))) pieces.push(piece);
      expectSame('content', checksumOfBytes(Buffer.concat(pieces)), checksumOfBytes(this.large));
    },
    'the completion of a multipart upload respects If-None-Match': async () => {
      const again = this.store.putBytes(this.key('large'), randomBytes(PART_BYTES + 1), { ifAbsent: true });
      await expectRefused('a second upload', again);
    },
    'a copy has the checksum of its source': async () => {
      const source = { bytes: this.large.byteLength, checksum: checksumOfBytes(this.large) };
      const { checksum } = await this.store.copy({ key: this.key('large') }, this.key('copy'), source);
      expectSame('checksum', checksum, source.checksum);
    },
    'DELETE with If-Match keeps an object with another ETag': async () => {
      const { etag } = await this.store.putBytes(this.key('changed'), BODY);
      await this.store.putBytes(this.key('changed'), OTHER);
      const late = this.store.delete([{ key: this.key('changed'), etag }]).catch((error: unknown) => {
        if (!(error instanceof PreconditionFailedError)) throw error;
      });
      if (!(await this.isSameAfter('changed', late))) skip('the server ignores If-Match of DELETE');
    },
    'a delete with the ETag deletes, and again without an error': async () => {
      const { etag } = await this.store.putBytes(this.key('deleted'), BODY);
      for (let i = 0; i < 2; i += 1) await this.store.delete([{ key: this.key('deleted'), etag }]);
      expectSame('object', await this.etag('deleted'), undefined);
    },
    'an object is encrypted with the KMS key': async () => {
      const { kmsKey } = this.options;
      if (kmsKey === undefined) skip('no --kms-key');
      const store = new S3Store({ ...this.options, encryption: { algorithm: 'aws:kms', key: kmsKey } });
      try {
        await store.putBytes(this.key('encrypted'), BODY);
      } finally {
        store.close();
      }
      const encryption = (await this.getHeaders('encrypted'))?.['x-amz-server-side-encryption'];
      expectSame('encryption', encryption, 'aws:kms');
    },
    'a request to another region finds the bucket': async () => {
      if (this.options.endpointUrl !== undefined) skip('only AWS has other regions');
      const region = this.options.region === 'us-east-1' ? 'eu-west-1' : 'us-east-1';
      const store = new S3Store({ ...this.options, region });
      try {
        await store.list(this.key('odd/'));
      } finally {
        store.close();
      }
    },
    'a missing bucket is reported as such': async () => {
      const store = new S3Store({ ...this.options, bucket: `missing-${randomBytes(8).toString('hex')}` });
      try {
        const error = await failure('a listing of a missing bucket', store.list('x/'));
        expectSame('code', error instanceof S3Error ? error.code : error.message, 'NoSuchBucket');
      } finally {
        store.close();
      }
    },
    'writes succeed although S3 limits their rate': async () => {
      if (this.options.throttle !== true) skip('no --throttle');
      const keys = Array.from({ length: 20_000 }, (_, i) => this.key(`throttled/${i}`));
      await forEachLimited(keys, this.store.concurrency, (key) => this.put(key));
    },
  };
}

/** Checks one after the other that a bucket behaves as the publisher needs, then deletes the objects of the checks. */
export async function checkBucket(
  options: BucketCheckOptions,
  onResult: (result: CheckResult) => void = () => undefined,
): Promise<CheckResult[]> {
  const checks = new Checks(options);
  const results: CheckResult[] = [];
  try {
    for (const [name, run] of Object.entries(checks.all)) {
      const result: CheckResult = { name };
      try {
        await run();
      } catch (error) {
        if (error instanceof SkippedError) result.skipped = error.message;
        else result.error = error as Error;
      }
      results.push(result);
      onResult(result);
    }
    await checks.store.delete(await checks.store.list(`${options.prefix}/`));
  } finally {
    checks.close();
  }
  return results;
}
