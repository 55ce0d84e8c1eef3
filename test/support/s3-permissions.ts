import type { Call } from './iam';

/** A request to S3 in path style. */
export interface S3Request {
  method: string;
  /** `/BUCKET/KEY?QUERY` */
  path: string;
  headers?: Readonly<Record<string, string | string[] | undefined>>;
  body?: string;
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

function ofBucket({ method, path, body }: S3Request, bucket: string, query: URLSearchParams): Call[] {
  const resource = bucketArn(bucket);
  if (method === 'HEAD') return [{ action: 's3:ListBucket', resource }];
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
  if (method === 'POST' && query.has('delete')) {
    const objects = [...(body ?? '').matchAll(/<Object>(.*?)<\/Object>/gs)].map(([, object = '']) => object);
    if (objects.length === 0) throw new Error(`the request to delete names no object: ${body}`);
    return objects.map((object) => ({
      action: object.includes('<VersionId>') ? 's3:DeleteObjectVersion' : 's3:DeleteObject',
      resource: objectArn(bucket, /<Key>(.*?)<\/Key>/s.exec(object)?.[1] ?? ''),
    }));
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
