import { createHash } from 'node:crypto';
import { UserError } from '../core/errors';
import { getName, type Bucket } from './bucket';
import { sha256 } from './checksum';
import { readXml, type WireResponse } from './requester';
import { childrenNamed, childText, escapeXml, MalformedXmlError, type XmlElement } from './xml';

/** S3's limit per request. */
const KEYS_AT_A_TIME = 1000;

/**
 * Deletes exactly these keys. Missing keys are ignored.
 * @throws S3Error, UserError if S3 refuses to delete one of them
 */
export async function deleteObjects(bucket: Bucket, keys: readonly string[]): Promise<void> {
  for (let i = 0; i < keys.length; i += KEYS_AT_A_TIME) await deleteSome(bucket, keys.slice(i, i + KEYS_AT_A_TIME));
}

async function deleteSome(bucket: Bucket, keys: readonly string[]): Promise<void> {
  const objects = keys.map((key) => `<Object><Key>${escapeXml(key)}</Key></Object>`).join('');
  const body = Buffer.from(
    `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${objects}<Quiet>false</Quiet></Delete>`,
  );
  const digest = sha256(body);
  const errors = await bucket.requester.send({
    what: `delete from s3://${bucket.name}`,
    method: 'POST',
    query: { delete: '' },
    headers: {
      'content-type': 'application/xml',
      // S3 requires one of these two headers here; other servers know only content-md5.
      'content-md5': createHash('md5').update(body).digest('base64'),
      'x-amz-checksum-sha256': digest.toString('base64'),
    },
    body,
    bodySha256: digest,
    read: (answer) => readResult(answer, keys),
  });
  const [first] = errors;
  if (first === undefined) return;
  const others = errors.length === 1 ? '' : `, and ${errors.length - 1} more`;
  const reason = `${childText(first, 'Code')} ${childText(first, 'Message')}`.trim();
  throw new UserError(`cannot delete ${getName(bucket, childText(first, 'Key') ?? '')}${others}: ${reason}`, {
    hint: 'the credentials lack the permission, or the object is locked: check the publisher role',
  });
}

/**
 * The errors in the answer. The answer must mention every key, because a key that it omits may not have been deleted.
 */
function readResult(answer: WireResponse, keys: readonly string[]): XmlElement[] {
  const root = readXml(answer, 'DeleteResult');
  const errors = childrenNamed(root, 'Error');
  const reported = new Set([...childrenNamed(root, 'Deleted'), ...errors].map((entry) => childText(entry, 'Key')));
  const omitted = keys.find((key) => !reported.has(key));
  if (omitted !== undefined) throw new MalformedXmlError(`the answer does not report whether "${omitted}" was deleted`);
  return errors;
}
