import { UserError } from '../errors';
import { nameOf, type Bucket } from './bucket';
import { type Answer, header, quoted, readXml } from './requester';
import type { ListedObject } from './types';
import { childrenNamed, childText, MalformedXml, type XmlElement } from './xml';

/** More than the two seconds by which a Date and a LastModified may be rounded apart. */
const RECENT_MS = 3000;

interface Page {
  objects: ListedObject[];
  /** Where the next page begins; undefined after the last one. */
  token: string | undefined;
}

/**
 * Everything whose key begins with `prefix`, complete or not at all.
 * @throws S3Error
 */
export async function listObjects(bucket: Bucket, prefix: string): Promise<ListedObject[]> {
  const what = `list ${nameOf(bucket, prefix)}`;
  const objects: ListedObject[] = [];
  for (let token: string | undefined; ;) {
    const page: Page = await bucket.requester.send({
      what,
      method: 'GET',
      query: {
        'list-type': '2',
        'encoding-type': 'url',
        'max-keys': '1000',
        prefix,
        ...(token === undefined ? {} : { 'continuation-token': token }),
      },
      read: (answer) => readPage(answer, prefix),
    });
    for (const object of page.objects) objects.push(object);
    if (page.token === undefined) break;
    if (page.token === token) throw new UserError(`cannot ${what}: the server gives the same page again and again`);
    token = page.token;
  }
  if (new Set(objects.map(({ key }) => key)).size !== objects.length) {
    throw new UserError(`cannot ${what}: the server listed a key twice`);
  }
  return objects;
}

/** A page that lacks anything is malformed, never shorter. */
function readPage(answer: Answer, prefix: string): Page {
  const root = readXml(answer, 'ListBucketResult');
  const encoded = childText(root, 'EncodingType') === 'url';
  const recently = timeBefore(answer);
  const objects = childrenNamed(root, 'Contents').map((entry) => {
    const key = decodeKey(required(entry, 'Key'), encoded);
    if (!key.startsWith(prefix))
      throw new MalformedXml(`the listing has "${key}", which does not begin with "${prefix}"`);
    const bytes = Number(required(entry, 'Size') || 'none');
    if (!Number.isSafeInteger(bytes) || bytes < 0) throw new MalformedXml(`the listing has no size for "${key}"`);
    const etag = quoted(required(entry, 'ETag'));
    const isRecent = (childText(entry, 'LastModified') ?? '') >= recently;
    return isRecent ? { key, bytes, etag, recent: true as const } : { key, bytes, etag };
  });
  const count = childText(root, 'KeyCount');
  if (count !== undefined && Number(count) !== objects.length) {
    throw new MalformedXml(`the page has ${objects.length} keys and should have ${count}`);
  }
  return { objects, token: tokenOf(root) };
}

/** A moment shortly before the answer, in the form of LastModified; without a Date nothing is told apart. */
function timeBefore(answer: Answer): string {
  const date = Date.parse(header(answer.headers, 'date') ?? '');
  return Number.isNaN(date) ? '' : new Date(date - RECENT_MS).toISOString();
}

function tokenOf(root: XmlElement): string | undefined {
  const truncated = required(root, 'IsTruncated');
  if (truncated === 'false') return undefined;
  const token = childText(root, 'NextContinuationToken') ?? '';
  if (truncated !== 'true' || token === '') throw new MalformedXml('the listing ends in the middle');
  return token;
}

/** A key of a listing with encoding-type=url, where a blank is a plus. */
export function decodeKey(text: string, encoded: boolean): string {
  if (!encoded || !/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new MalformedXml(`the listing has a key that is not percent-encoded: "${text}"`);
  }
}

function required(element: XmlElement, name: string): string {
  const text = childText(element, name);
  if (text === undefined) throw new MalformedXml(`<${element.name}> has no <${name}>`);
  return text;
}
