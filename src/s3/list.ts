import { UserError } from '../core/errors';
import { getName, type Bucket } from './bucket';
import { type WireResponse, header, quoted, readXml } from './requester';
import type { ListedObject } from './types';
import { childrenNamed, childText, MalformedXmlError, type XmlElement } from './xml';

/**
 * An object counts as recent if it was modified within this time before the listing. Longer than the two seconds by
 * which rounding may separate Date and LastModified.
 */
const RECENT_MS = 3000;

/** The most keys that S3 returns on one page. */
const PAGE_KEYS = 1000;

interface Page {
  objects: ListedObject[];
  /** Where the next page begins; undefined after the last one. */
  token: string | undefined;
}

/** The keys after `after`, up to and including `until`; to the last key if `until` is undefined. */
interface Range {
  after: string;
  until: string | undefined;
}

/**
 * Lists every object whose key begins with `prefix`. The listing is complete, or an error is thrown.
 * @param expected keys that probably exist, sorted. With them the pages are requested in parallel, cut at these keys,
 *   instead of one after the other. They affect only the time; other keys are listed too.
 * @throws S3Error
 */
export async function listObjects(
  bucket: Bucket,
  prefix: string,
  expected: Promise<readonly string[]> = Promise.resolve([]),
  withTimes = false,
): Promise<ListedObject[]> {
  const lister = new Lister(bucket, prefix, withTimes);
  const first = await lister.page({});
  const last = first.objects.at(-1)?.key;
  if (first.token === undefined) return lister.whole(first.objects);
  const known = await expected;
  const cuts = last === undefined ? [] : cutsBehind(last, known);
  if (cuts.length > 0) {
    const ranges = cuts.map((after, i) => ({ after, until: cuts[i + 1] }));
    const parts = await Promise.all(ranges.map((range) => lister.range(range)));
    const objects = [first.objects, ...ranges.map((range, i) => within(range, parts[i] ?? []))].flat();
    if ([...parts, objects].every(isSorted) && hasAll(objects, known)) return objects;
    // Some servers sort by folder instead of by key. A range may then have missed a key, so list sequentially.
  }
  return lister.whole([...first.objects, ...(await lister.following(first.token))]);
}

/** Keys after which pages probably begin. The first one is `last`. */
function cutsBehind(last: string, known: readonly string[]): string[] {
  const rest = known.filter((key) => key > last);
  return rest.length === 0 ? [] : [last, ...rest.filter((_, i) => (i + 1) % PAGE_KEYS === 0 && i + 1 < rest.length)];
}

/** Drops the keys after the end of a range, because the next range lists them. */
const within = ({ until }: Range, objects: ListedObject[]): ListedObject[] =>
  until === undefined ? objects : objects.filter(({ key }) => key <= until);

const isSorted = (objects: readonly ListedObject[]): boolean =>
  objects.every(({ key }, i) => i === 0 || key > (objects[i - 1] as ListedObject).key);

/** Whether `objects` has all `keys`. Both must be sorted. */
function hasAll(objects: readonly ListedObject[], keys: readonly string[]): boolean {
  let at = 0;
  return keys.every((key) => {
    while (at < objects.length && (objects[at] as ListedObject).key < key) at += 1;
    return objects[at]?.key === key;
  });
}

class Lister {
  private readonly what: string;

  constructor(
    private readonly bucket: Bucket,
    private readonly prefix: string,
    private readonly withTimes: boolean,
  ) {
    this.what = `list ${getName(bucket, prefix)}`;
  }

  async page(from: { 'start-after'?: string; 'continuation-token'?: string }): Promise<Page> {
    return this.bucket.requester.send({
      what: this.what,
      method: 'GET',
      query: { 'list-type': '2', 'encoding-type': 'url', 'max-keys': String(PAGE_KEYS), prefix: this.prefix, ...from },
      read: (answer) => readPage(answer, this.prefix, this.withTimes),
    });
  }

  /** The objects of the pages from `token` on, up to the first page for which `isLast` holds. */
  async following(token: string | undefined, isLast: (page: Page) => boolean = () => false): Promise<ListedObject[]> {
    const objects: ListedObject[] = [];
    for (let next = token; next !== undefined;) {
      const page = await this.page({ 'continuation-token': next });
      for (const object of page.objects) objects.push(object);
      if (page.token === next) this.fail('the server returned the same page twice');
      next = isLast(page) ? undefined : page.token;
    }
    return objects;
  }

  /** The objects of all pages of the range, including objects after its end. */
  async range({ after, until }: Range): Promise<ListedObject[]> {
    const reachesEnd = ({ objects }: Page): boolean => until !== undefined && (objects.at(-1)?.key ?? '') >= until;
    const first = await this.page({ 'start-after': after });
    return reachesEnd(first) ? first.objects : [...first.objects, ...(await this.following(first.token, reachesEnd))];
  }

  whole(objects: ListedObject[]): ListedObject[] {
    if (new Set(objects.map(({ key }) => key)).size !== objects.length) this.fail('the server listed a key twice');
    return objects;
  }

  private fail(why: string): never {
    throw new UserError(`cannot ${this.what}: ${why}`);
  }
}

/** Rejects a page that lacks anything, so that an incomplete page is never taken for a short one. */
function readPage(answer: WireResponse, prefix: string, withTimes: boolean): Page {
  const root = readXml(answer, 'ListBucketResult');
  const encoded = childText(root, 'EncodingType') === 'url';
  const recently = timeBefore(answer);
  const objects = childrenNamed(root, 'Contents').map((entry) => {
    const key = decodeKey(required(entry, 'Key'), encoded);
    if (!key.startsWith(prefix))
      throw new MalformedXmlError(`the listing has "${key}", which does not begin with "${prefix}"`);
    const bytes = Number(required(entry, 'Size') || 'none');
    if (!Number.isSafeInteger(bytes) || bytes < 0) throw new MalformedXmlError(`the listing has no size for "${key}"`);
    const etag = quoted(required(entry, 'ETag'));
    const isRecent = (childText(entry, 'LastModified') ?? '') >= recently;
    const listed = isRecent ? { key, bytes, etag, recent: true as const } : { key, bytes, etag };
    return withTimes ? { ...listed, modified: new Date(required(entry, 'LastModified')) } : listed;
  });
  const count = childText(root, 'KeyCount');
  if (count !== undefined && Number(count) !== objects.length) {
    throw new MalformedXmlError(`the page has ${objects.length} keys and should have ${count}`);
  }
  return { objects, token: getToken(root) };
}

/**
 * RECENT_MS before the answer, in the format of LastModified. Empty without a Date header, so that every object counts
 * as recent.
 */
function timeBefore(answer: WireResponse): string {
  const date = Date.parse(header(answer.headers, 'date') ?? '');
  return Number.isNaN(date) ? '' : new Date(date - RECENT_MS).toISOString();
}

function getToken(root: XmlElement): string | undefined {
  const truncated = required(root, 'IsTruncated');
  if (truncated === 'false') return undefined;
  const token = childText(root, 'NextContinuationToken') ?? '';
  if (truncated !== 'true' || token === '') throw new MalformedXmlError('the listing is incomplete');
  return token;
}

/** Decodes a key of a listing. With encoding-type=url (`encoded`) a space is written as a plus. */
export function decodeKey(text: string, encoded: boolean): string {
  if (!encoded || !/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new MalformedXmlError(`the listing has a key that is not percent-encoded: "${text}"`);
  }
}

function required(element: XmlElement, name: string): string {
  const text = childText(element, name);
  if (text === undefined) throw new MalformedXmlError(`<${element.name}> has no <${name}>`);
  return text;
}
