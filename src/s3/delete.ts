import { createHash, getFips } from 'node:crypto';
import { getName, type Bucket } from './bucket';
import { sha256 } from './checksum';
import { PreconditionFailedError, S3Error } from './errors';
import { headInBucket } from './objects';
import { readXml, S3RequestError, type S3Request, type WireResponse } from './requester';
import { isTransientCode } from './retry';
import type { SeenObject } from './types';
import { childrenNamed, childText, escapeXml, MalformedXmlError } from './xml';

/** S3's limit per request. */
const KEYS_AT_A_TIME = 1000;

/** Error codes for an object that was deleted already. */
const MISSING = ['NoSuchKey', 'NoSuchVersion', 'NotFound'];

/**
 * Deletes exactly these objects. Missing objects are ignored. An object with another ETag than the given one is not
 * deleted if the server supports conditional deletes.
 * @throws PreconditionFailedError, S3Error if S3 refuses to delete one of them
 */
export async function deleteObjects(bucket: Bucket, objects: readonly SeenObject[]): Promise<void> {
  for (let i = 0; i < objects.length; i += KEYS_AT_A_TIME) {
    await deleteSome(bucket, objects.slice(i, i + KEYS_AT_A_TIME));
  }
}

/** An object that S3 did not delete. */
interface Refusal {
  key: string;
  code: string;
  text: string;
}

async function deleteSome(bucket: Bucket, objects: readonly SeenObject[]): Promise<void> {
  const what = `delete from s3://${bucket.name}`;
  const request: S3Request<Refusal[]> = {
    what,
    method: 'POST',
    query: { delete: '' },
    ...getContent(objects),
    read: (answer) => {
      const refusals = readRefusals(answer, objects);
      const [first] = refusals;
      if (first === undefined || !refusals.every(({ code }) => isTransientCode(code))) return refusals;
      // Throwing makes the requester send the remaining keys again.
      objects = objects.filter(({ key }) => refusals.some((refusal) => refusal.key === key));
      Object.assign(request, getContent(objects));
      throw new S3RequestError(first);
    },
  };
  const refusals: Refusal[] = [];
  for (const refusal of await bucket.requester.send(request)) {
    // Some servers refuse to delete a missing object because of its ETag.
    if (refusal.code === 'PreconditionFailed' && (await headInBucket(bucket, refusal.key)) === undefined) continue;
    refusals.push(refusal);
  }
  const first = refusals.find(({ code }) => !isTransientCode(code)) ?? refusals[0];
  if (first === undefined) return;
  const others = refusals.length === 1 ? '' : ` and ${refusals.length - 1} more`;
  if (first.code === 'PreconditionFailed') {
    throw new PreconditionFailedError(
      `cannot delete ${getName(bucket, first.key)}${others}: another program wrote it in the meantime`,
      { hint: 'run the command again; it then starts from the new content of the bucket' },
    );
  }
  throw new S3Error(`delete ${getName(bucket, first.key)}${others}`, bucket.requester.url, first);
}

function getContent(objects: readonly SeenObject[]): Pick<S3Request<unknown>, 'headers' | 'body' | 'bodySha256'> {
  const list = objects.map(({ key, etag }) => {
    const condition = etag === undefined ? '' : `<ETag>${escapeXml(etag)}</ETag>`;
    return `<Object><Key>${escapeXml(key)}</Key>${condition}</Object>`;
  });
  const body = Buffer.from(
    `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${list.join('')}<Quiet>false</Quiet></Delete>`,
  );
  const digest = sha256(body);
  return {
    headers: {
      'content-type': 'application/xml',
      // S3 requires one of these two headers here. Some servers know only content-md5, which Node cannot compute in
      // FIPS mode.
      ...(getFips() === 1 ? {} : { 'content-md5': createHash('md5').update(body).digest('base64') }),
      'x-amz-checksum-sha256': digest.toString('base64'),
    },
    body,
    bodySha256: digest,
  };
}

/**
 * The objects that still exist. The answer must report every key, because a key that it omits may not have been
 * deleted.
 */
function readRefusals(answer: WireResponse, objects: readonly SeenObject[]): Refusal[] {
  const root = readXml(answer, 'DeleteResult');
  const errors = childrenNamed(root, 'Error');
  const reported = new Set([...childrenNamed(root, 'Deleted'), ...errors].map((entry) => childText(entry, 'Key')));
  const omitted = objects.find(({ key }) => !reported.has(key))?.key;
  if (omitted !== undefined) throw new MalformedXmlError(`the answer does not report whether "${omitted}" was deleted`);
  return errors
    .map((entry) => ({
      key: childText(entry, 'Key') ?? '',
      code: childText(entry, 'Code') ?? '',
      text: childText(entry, 'Message') ?? '',
    }))
    .filter(({ code }) => !MISSING.includes(code));
}
