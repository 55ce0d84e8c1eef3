import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ContentStore, getUnits, WrongBytesError, type ReadObject } from '../../../src/agent/content-store';
import type { ManifestModel } from '../../../src/release/manifest';
import { checksumOfParts, sha256, splitIntoParts } from '../../../src/s3/checksum';

let directory: string;
let store: ContentStore;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'content-'));
  store = new ContentStore(directory);
});
afterEach(() => rmSync(directory, { recursive: true }));

/** Three parts of different content. */
const LARGE = Buffer.alloc(20 * 1024 * 1024, 'abcdefg');
LARGE.fill(1, 0, 1000);
LARGE.fill(2, 10 * 1024 * 1024);
const FILES: Record<string, Buffer> = {
  '1/weights': LARGE,
  '1/folder/small': Buffer.from('small'),
  '2/empty': Buffer.alloc(0),
  'labels.txt': Buffer.from('cat\n'),
};

const checksum = (body: Buffer): string =>
  checksumOfParts(
    splitIntoParts(body.byteLength).map(({ start, bytes }) => sha256(body.subarray(start, start + bytes))),
  );

const model: ManifestModel = {
  served: [1, 2],
  composedOf: [],
  config: '',
  files: Object.entries(FILES).map(([path, body]) => ({
    path,
    key: path,
    versionId: 'v',
    bytes: body.byteLength,
    checksum: checksum(body),
  })),
};
const units = getUnits('m', model);

/** Passes a part on in chunks of up to 100 KiB. */
const read: ReadObject = async (file, { start, bytes }, take) => {
  const all = (FILES[file.path] as Buffer).subarray(start, start + bytes);
  for (let at = 0; at < all.byteLength; at += 100 * 1024) await take(all.subarray(at, at + 100 * 1024));
  return all.byteLength;
};
const fill = (reading: ReadObject, signal?: AbortSignal): Promise<void> => store.fill(units, { read: reading, signal });

const contents = (): string[] => units.filter((unit) => store.has(unit)).map(({ name }) => name);

function expectAll(): void {
  for (const unit of units) {
    for (const { path } of unit.files) {
      const inUnit = unit.isVersion ? path.slice(unit.name.length) : '';
      expect(readFileSync(`${store.path(unit)}${inUnit}`).equals(FILES[path] as Buffer)).toBe(true);
    }
  }
}

test('files have their bytes if parts arrive in another order', async () => {
  let waiting: (() => void)[] = [];
  const lastFirst: ReadObject = async (...asked) => {
    // All parts in flight wait, and are answered in reverse order.
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      setImmediate(() => waiting.pop()?.());
    });
    return read(...asked);
  };
  await fill(lastFirst);
  waiting = [];
  expect(store.missing(units)).toEqual([]);
  expectAll();
});

const SECOND_PART = 8 * 1024 * 1024;

test.each<[string, (chunk: Buffer) => Buffer, RegExp]>([
  ['a changed byte', (chunk) => Buffer.from(chunk.map((byte) => byte ^ 1)), /checksum \S+ instead of/],
  ['a byte less', (chunk) => chunk.subarray(1), /it ends after 16777215 of 20971520 bytes/],
])('%s is refused, and the next attempt succeeds', async (_, change, message) => {
  const wrong: ReadObject = async (file, range, take) => {
    let left = 0;
    let isFirst = file.path === '1/weights' && range.start === SECOND_PART;
    await read(file, range, (chunk) => {
      const changed = isFirst ? change(chunk) : chunk;
      isFirst = false;
      left += changed.byteLength;
      return take(changed);
    });
    return left;
  };
  const failed = fill(wrong);
  await expect(failed).rejects.toThrow(WrongBytesError);
  await expect(failed).rejects.toThrow(message);
  expect(contents()).not.toContain('1');
  // Nothing is left behind.
  expect(readdirSync(directory).sort()).toEqual(
    units
      .filter((unit) => store.has(unit))
      .map(({ content }) => content)
      .sort(),
  );
  await fill(read);
  expectAll();
});

test('an interrupted download leaves no incomplete unit', async () => {
  const stopping = new AbortController();
  const interrupted: ReadObject = (file, range, take) => {
    if (range.start === SECOND_PART) stopping.abort();
    return read(file, range, take);
  };
  await expect(fill(interrupted, stopping.signal)).rejects.toThrow(/aborted/);
  expect(contents()).not.toContain('1');
  expect(readdirSync(directory).filter((name) => name.startsWith('incomplete'))).toEqual([]);
});

test('a new process deletes what one that was killed left, and keeps what is complete', async () => {
  await fill(read);
  void store.fill(getUnits('other', model), { read: () => new Promise(() => undefined) });
  while (!readdirSync(directory).some((name) => name.startsWith('incomplete'))) await new Promise(setImmediate);
  store = new ContentStore(directory);
  expect(readdirSync(directory).sort()).toEqual(units.map(({ content }) => content).sort());
});
