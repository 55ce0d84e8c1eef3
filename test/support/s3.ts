import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LOCAL_CREDENTIALS, LOCAL_REGION, startS3Server, type S3Server } from '../../src/local/s3-server';
import { freePorts } from '../../src/local/process/ports';
import { Progress } from '../../src/cli/progress';
import { S3Store, type StoreOptions } from '../../src/s3/store';
import { ensurePython } from '../../src/local/install/python';
import { ensureSeaweedfs } from '../../src/local/install/seaweedfs';
import type { Scratch } from './temp-dir';

/** Credentials of the test servers, as environment of a command. */
export const S3_ENVIRONMENT = {
  AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
  AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
  AWS_REGION: LOCAL_REGION,
} as const;

/** Starts a real S3 server that stores objects in the folder `name`. Stops when the scratch folder is cleaned. */
export async function testS3(scratch: Scratch, name = 's3'): Promise<S3Server> {
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
  const server = await startS3Server({
    weed: await ensureSeaweedfs(),
    python,
    directory: join(scratch.directory, name),
    logFile: join(scratch.directory, `${name}.log`),
    port: (await freePorts(1))[0] as number,
    credentials: LOCAL_CREDENTIALS,
  });
  scratch.defer(() => server.stop());
  return server;
}

/** Opens a bucket on a test server; `create: false` for an existing bucket. */
export async function openBucket(
  scratch: Scratch,
  endpoint: string,
  bucket: string,
  {
    create = true,
    ...options
  }: { create?: boolean } & Pick<StoreOptions, 'attempts' | 'idleTimeoutMs' | 'deadlineMs'> = {},
): Promise<S3Store> {
  const store = new S3Store({
    bucket,
    endpointUrl: endpoint,
    region: LOCAL_REGION,
    credentials: LOCAL_CREDENTIALS,
    ...options,
  });
  scratch.defer(() => store.close());
  if (create) await store.ensureBucket();
  return store;
}

/** A new file with this content. */
export function getFile(scratch: Scratch, content: Buffer): { path: string; bytes: number } {
  const path = join(scratch.directory, `file-${randomBytes(6).toString('hex')}`);
  writeFileSync(path, content);
  return { path, bytes: content.byteLength };
}

/** Objects sorted by key. */
export function sorted<T extends { key: string }>(objects: readonly T[]): T[] {
  return [...objects].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** The keys of unfinished multipart uploads. */
export async function unfinishedUploads(store: S3Store, prefix = ''): Promise<string[]> {
  const request = { what: 'list the unfinished uploads', method: 'GET', query: { uploads: '', prefix } };
  const xml = await store.requester.send({ ...request, read: ({ body }) => body.toString() });
  return [...xml.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key as string);
}
