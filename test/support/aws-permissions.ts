import type { Call, PolicyDocument } from './iam';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';

/** A request to S3 in path style. */
export interface S3Request {
  method: string;
  /** `/BUCKET/KEY?QUERY` */
  path: string;
  headers?: Readonly<Record<string, string | string[] | undefined>>;
  /** Status of the answer. */
  status?: number | undefined;
}

const bucketArn = (bucket: string): string => `arn:aws:s3:::${bucket}`;
const objectArn = (bucket: string, key: string): string => `${bucketArn(bucket)}/${key}`;

/** Condition keys of listings: parameter of the request -> key. */
const LISTING_KEYS = { prefix: 's3:prefix', delimiter: 's3:delimiter', 'max-keys': 's3:max-keys' } as const;

/**
 * The permissions that S3 requires for a request, as AWS documents them ("Required permissions for Amazon S3 API
 * operations").
 * @param kmsKey ARN of the key that encrypts the objects, if there is one
 * @throws for a request that this function does not know
 */
export function permissionsFor(request: S3Request, kmsKey?: string): Call[] {
  const { method } = request;
  const { pathname, searchParams } = new URL(request.path, 'http://s3');
  const [bucket = '', ...rest] = pathname.slice(1).split('/').map(decodeURIComponent);
  const key = rest.join('/');
  const has = (name: string): boolean => searchParams.has(name);
  const kms = (...actions: string[]): Call[] =>
    kmsKey === undefined ? [] : actions.map((action) => ({ action: `kms:${action}`, resource: kmsKey }));

  if (key === '') return ofBucket(request, bucket, searchParams);
  const resource = objectArn(bucket, key);
  // S3 answers 404 for a missing object only if the caller may list the bucket; otherwise 403.
  const missing = request.status === 404 ? [{ action: 's3:ListBucket', resource: bucketArn(bucket) }] : [];
  const on = (action: string): Call => ({ action: `s3:${action}`, resource });
  const version = has('versionId') ? 'Version' : '';
  switch (method) {
    case 'HEAD':
      return [
        on(`GetObject${version}`),
        ...missing,
        ...(header(request, 'x-amz-checksum-mode') === '' ? [] : kms('Decrypt')),
      ];
    case 'GET':
      return has('uploadId')
        ? [on('ListMultipartUploadParts')]
        : [on(`GetObject${version}`), ...missing, ...kms('Decrypt')];
    case 'PUT': {
      // A part is encrypted with the data key of its upload, which KMS has to decrypt first.
      const encrypted = has('uploadId') ? kms('GenerateDataKey', 'Decrypt') : kms('GenerateDataKey');
      return [
        { ...on('PutObject'), context: ofWrite(request, !has('uploadId')) },
        ...encrypted,
        ...ofCopySource(request, kms),
      ];
    }
    case 'POST':
      if (has('uploads') || has('uploadId')) {
        return [
          { ...on('PutObject'), context: ofWrite(request, has('uploadId')) },
          ...kms('GenerateDataKey', 'Decrypt'),
        ];
      }
      break;
    case 'DELETE':
      return [has('uploadId') ? on('AbortMultipartUpload') : on(`DeleteObject${version}`)];
  }
  throw new Error(`which permissions ${method} ${request.path} needs is not known here`);
}

function ofBucket({ method, path }: S3Request, bucket: string, query: URLSearchParams): Call[] {
  const resource = bucketArn(bucket);
  if (method === 'HEAD') return [{ action: 's3:ListBucket', resource }];
  // The provider empties a bucket that is not protected. S3 asks for the permissions of each object and version.
  if (method === 'POST' && query.has('delete'))
    return ['s3:DeleteObject', 's3:DeleteObjectVersion'].map((action) => ({
      action,
      resource: objectArn(bucket, 'any'),
    }));
  // IAM has no condition key for the prefix of this call.
  if (method === 'GET' && query.has('uploads')) return [{ action: 's3:ListBucketMultipartUploads', resource }];
  if (method === 'GET' && (query.has('list-type') || query.has('prefix'))) {
    const context = Object.fromEntries(
      Object.entries(LISTING_KEYS).flatMap(([name, key]) => {
        const value = query.get(name);
        return value === null ? [] : [[key, value]];
      }),
    );
    return [{ action: 's3:ListBucket', resource, context }];
  }
  throw new Error(`which permissions ${method} ${path} needs is not known here`);
}

/** Condition keys of a write. */
function ofWrite(request: S3Request, createsObject: boolean): NonNullable<Call['context']> {
  const context: Record<string, string> = { 's3:ObjectCreationOperation': String(createsObject) };
  for (const name of ['if-match', 'if-none-match']) {
    const value = header(request, name);
    if (value !== '') context[`s3:${name}`] = value;
  }
  return context;
}

function ofCopySource(request: S3Request, kms: (...actions: string[]) => Call[]): Call[] {
  const source = header(request, 'x-amz-copy-source');
  if (source === '') return [];
  const { pathname, searchParams } = new URL(`/${source.replace(/^\//, '')}`, 'http://s3');
  const [bucket = '', ...key] = pathname.slice(1).split('/').map(decodeURIComponent);
  const action = searchParams.has('versionId') ? 's3:GetObjectVersion' : 's3:GetObject';
  return [{ action, resource: objectArn(bucket, key.join('/')) }, ...kms('Decrypt')];
}

function header({ headers = {} }: S3Request, name: string): string {
  return String(headers[name] ?? '');
}

/** A policy of docs/iam, for a stack. Its state bucket and key have names that no request has. */
export function readCiPolicy(
  name: 'deploy' | 'preview',
  at: { account: string; region: string; stack: string },
): PolicyDocument & { Statement: readonly object[] } {
  const text = readFileSync(join(paths.root, 'docs', 'iam', `${name}.json`), 'utf8')
    .replaceAll('STATE-BUCKET', 'state-bucket')
    .replaceAll('STATE-KEY', 'state-key')
    .replaceAll('REGION', at.region)
    .replaceAll('ACCOUNT', at.account)
    .replaceAll('STACK', at.stack);
  return JSON.parse(text) as PolicyDocument & { Statement: readonly object[] };
}

/** ARNs of a model repository, for constructed calls. */
export interface RepositoryArns {
  bucket: string;
  /** Without leading and trailing slashes. */
  prefix: string;
  /** ARN of the KMS key. */
  key: string;
  region: string;
}

interface Permission {
  action: string;
  /** Kind of resource: the bucket, a listing of the bucket, an object, or the key that encrypts objects. */
  of: 'bucket' | 'listing' | 'object' | 'key';
  /** Operation that needs the permission. */
  why: string;
}

/** All permissions that the publisher needs, as recorded from publish, prune, rollback and status. */
export const PUBLISHER_PERMISSIONS: readonly Permission[] = [
  // Also without a prefix, because this call is not a listing.
  { action: 's3:ListBucket', of: 'bucket', why: 'a missing object is reported as missing, not as forbidden' },
  { action: 's3:ListBucket', of: 'listing', why: 'what is there' },
  { action: 's3:GetObject', of: 'object', why: 'releases, and what S3 copies' },
  { action: 's3:PutObject', of: 'object', why: 'models and releases' },
  { action: 's3:AbortMultipartUpload', of: 'object', why: 'aborting an upload that failed' },
  { action: 's3:DeleteObject', of: 'object', why: 'what the repository has of models that a release removes' },
  { action: 'kms:GenerateDataKey', of: 'key', why: 'writing what is encrypted' },
  { action: 'kms:Decrypt', of: 'key', why: 'reading what is encrypted, and the parts of an upload' },
];

/** All permissions that a release agent needs, and promote on its source repository, as recorded. */
export const READER_PERMISSIONS: readonly Permission[] = [
  { action: 's3:ListBucket', of: 'bucket', why: 'a missing object is reported as missing, not as forbidden' },
  { action: 's3:GetObject', of: 'object', why: 'releases, and what S3 copies' },
  { action: 'kms:Decrypt', of: 'key', why: 'reading what is encrypted' },
];

/**
 * One call for each permission and each place.
 * @param places prefixes of listings and of keys of objects
 */
export function getCalls(permissions: readonly Permission[], at: RepositoryArns, places: readonly string[]): Call[] {
  const bucket = `arn:aws:s3:::${at.bucket}`;
  return permissions.flatMap(({ action, of }): Call[] => {
    switch (of) {
      case 'bucket':
        return [{ action, resource: bucket }];
      case 'listing':
        return places.map((place) => ({ action, resource: bucket, context: { 's3:prefix': `${place}/` } }));
      case 'object':
        return places.map((place) => ({
          action,
          resource: `${bucket}/${place}/bert/1/model.pt`,
        }));
      case 'key':
        return [{ action, resource: at.key, context: { 'kms:ViaService': `s3.${at.region}.amazonaws.com` } }];
    }
  });
}
