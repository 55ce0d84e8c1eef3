import { UserError } from '../core/errors';
import { nameOf, type Bucket } from './bucket';
import { type Answer, header, quoted, readXml } from './requester';
import type { ListedObject } from './types';
import { childrenNamed, childText, MalformedXml, type XmlElement } from './xml';

/** More than the two seconds by which a Date and a LastModified may be rounded apart. */
const RECENT_MS = 3000;

/** Most keys that S3 puts on a page. */
const PAGE_KEYS = 1000;

interface Page {
  objects: ListedObject[];
  /** Where the next page begins; undefined after the last one. */
  token: string | undefined;
}

/** The keys behind `after`, up to `until` and with it; undefined: to the last. */
interface Range {
  after: string;
  until: string | undefined;
}

/**
 * Everything whose key begins with `prefix`, complete or not at all.
 * @param expected keys that are probably there, sorted. The pages are then asked for all at once, cut at these keys,
 *   instead of one after the other. They decide about time only: whatever else is there is found too.
 * @throws S3Error
 */
export async function listObjects(
  bucket: Bucket,
  prefix: string,
  expected: Promise<readonly string[]> = Promise.resolve([]),
): Promise<ListedObject[]> {
  const lister = new Lister(bucket, prefix);
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
    // Some servers sort by folder and not by key: then a cut may have cost us a key.
  }
  return lister.whole([...first.objects, ...(await lister.following(first.token))]);
}

/** Keys behind which the pages probably begin, the first of which is `last`. */
function cutsBehind(last: string, known: readonly string[]): string[] {
  const rest = known.filter((key) => key > last);
  return rest.length === 0 ? [] : [last, ...rest.filter((_, i) => (i + 1) % PAGE_KEYS === 0 && i + 1 < rest.length)];
}

/** What is behind the end of a range is listed by the next one. */
const within = ({ until }: Range, objects: ListedObject[]): ListedObject[] =>
  until === undefined ? objects : objects.filter(({ key }) => key <= until);

const isSorted = (objects: readonly ListedObject[]): boolean =>
  objects.every(({ key }, i) => i === 0 || key > (objects[i - 1] as ListedObject).key);

/** Of lists that are both sorted. */
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
  ) {
    this.what = `list ${nameOf(bucket, prefix)}`;
  }

  async page(from: { 'start-after'?: string; 'continuation-token'?: string }): Promise<Page> {
    return this.bucket.requester.send({
      what: this.what,
      method: 'GET',
      query: { 'list-type': '2', 'encoding-type': 'url', 'max-keys': String(PAGE_KEYS), prefix: this.prefix, ...from },
      read: (answer) => readPage(answer, this.prefix),
    });
  }

  /** The pages from `token` on, until one that `isLast` or the end. */
  async following(token: string | undefined, isLast: (page: Page) => boolean = () => false): Promise<ListedObject[]> {
    const objects: ListedObject[] = [];
    for (let next = token; next !== undefined;) {
      const page = await this.page({ 'continuation-token': next });
      for (const object of page.objects) objects.push(object);
      if (page.token === next) this.fail('the server gives the same page again and again');
      next = isLast(page) ? undefined : page.token;
    }
    return objects;
  }

  /** The pages that hold the range, whole. */
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
