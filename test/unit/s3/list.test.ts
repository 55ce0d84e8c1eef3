import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { S3Store } from '../../../src/s3/store';
import { SeededRandom } from '../../support/soak';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0).reverse()) step();
});

/** The order of S3, and the order of servers that store keys in folders: all of `a/` before `a-b`. */
const ORDERS = {
  'by key': (key: string) => key,
  'by folder': (key: string) => key.replaceAll('/', '\u0001'),
};

/** A store on a server that has these keys. `atOnce` returns the maximum number of concurrent requests. */
async function storeOn(
  keys: readonly string[],
  order: (key: string) => string = ORDERS['by key'],
): Promise<{ store: S3Store; requests: URLSearchParams[]; atOnce: () => number }> {
  const sorted = keys.map((key) => ({ key, place: order(key) })).sort((a, b) => (a.place < b.place ? -1 : 1));
  const requests: URLSearchParams[] = [];
  let open = 0;
  let most = 0;
  const server = createServer((request, reply) => {
    const query = new URLSearchParams((request.url ?? '').split('?')[1]);
    requests.push(query);
    open += 1;
    most = Math.max(most, open);
    const after = query.get('continuation-token') ?? query.get('start-after');
    const from = after === null ? '' : order(after);
    const rest = sorted.filter(({ place }) => place > from);
    const page = rest.slice(0, Number(query.get('max-keys'))).map(({ key }) => key);
    const entries = page.map((key) => `<Contents><Key>${key}</Key><ETag>"e"</ETag><Size>1</Size></Contents>`);
    const next =
      page.length < rest.length
        ? `<IsTruncated>true</IsTruncated><NextContinuationToken>${page.at(-1)}</NextContinuationToken>`
        : '<IsTruncated>false</IsTruncated>';
    setTimeout(() => {
      open -= 1;
      reply.end(`<ListBucketResult>${next}${entries.join('')}</ListBucketResult>`);
    }, 5);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const store = new S3Store({
    bucket: 'bucket',
    endpointUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
  });
  undo.push(() => {
    store.close();
    server.closeAllConnections();
    server.close();
  });
  return { store, requests, atOnce: () => most };
}

const numbered = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => `m/${String(i).padStart(5, '0')}`);
const keysIn = async (store: S3Store, expected?: readonly string[]): Promise<string[]> =>
  (await store.list('m/', expected === undefined ? undefined : Promise.resolve(expected))).map(({ key }) => key);

test('list with expected keys requests its pages in parallel, in as many requests as without', async () => {
  const keys = numbered(4000);
  const plain = await storeOn(keys);
  expect(await keysIn(plain.store)).toEqual(keys);
  expect([plain.requests.length, plain.atOnce()]).toEqual([4, 1]);
  const cut = await storeOn(keys);
  expect(await keysIn(cut.store, keys)).toEqual(keys);
  expect(cut.requests).toHaveLength(4);
  // On a busy machine the three requests need not all overlap.
  expect(cut.atOnce()).toBeGreaterThan(1);
  expect(cut.requests.map((query) => query.get('start-after')).sort()).toEqual(['m/00999', 'm/01999', 'm/02999', null]);
});

test('list with expected keys sends one request if all keys are on one page', async () => {
  const { store, requests } = await storeOn(numbered(1000));
  expect(await keysIn(store, numbered(3000))).toEqual(numbered(1000));
  expect(requests).toHaveLength(1);
});

test('list omits expected keys that do not exist', async () => {
  const keys = numbered(5000);
  const present = keys.filter((_, i) => i % 3 > 0);
  const { store } = await storeOn(present);
  expect(await keysIn(store, keys)).toEqual(present);
});

test('list requests the pages sequentially from a server that sorts by folder, because a cut could skip a key', async () => {
  const known = [...numbered(1000), ...numbered(3000).map((key) => key.replace('m/', 'm/a-'))];
  const { store, requests } = await storeOn([...known, 'm/a/unknown'], ORDERS['by folder']);
  expect(await keysIn(store, known)).toContain('m/a/unknown');
  expect(requests.at(-1)?.get('start-after')).toBeNull();
});

test.each(Object.entries(ORDERS))(
  'list returns every key once, whichever keys are expected, from a server that sorts %s',
  async (_, order) => {
    const random = new SeededRandom(7);
    const name = (): string =>
      `m/${random.pick(['a', 'a-b', 'a.c', 'b'])}${random.pick(['/', '-', ''])}${random.integer(0, 9999)}`;
    for (let i = 0; i < 12; i += 1) {
      const keys = [...new Set(Array.from({ length: random.integer(1, 4000) }, name))];
      const expected = [...new Set([...keys.filter(() => random.integer(0, 9) > i % 4), name(), name()])].sort();
      const { store } = await storeOn(keys, order);
      expect((await keysIn(store, expected)).sort()).toEqual([...keys].sort());
    }
  },
);
