import { UserError } from '../../src/core/errors';
import type { S3Store } from '../../src/s3/store';
import { Authority, startFront } from '../support/authority';
import { FAULTS, startFaultProxy, type Fault, type FaultProxy } from '../support/fault-proxy';
import { ConsistencyChecker, type Expected, type Snapshot } from '../support/consistency-checker';
import { PublishProcess } from '../support/publish-process';
import { openBucket } from '../support/s3';
import { describeOnEachS3 } from '../support/s3-servers';
import { Scratch } from '../support/temp-dir';
import { IS_LONG, patience, repetitions, report, SeededRandom, SOAK_SEED } from '../support/soak';
import { getChanges, type Change } from '../support/soak-changes';
import { expectedBetween, twoStates } from '../support/soak-models';
import { TestRepository, withoutWaiting } from '../support/test-repository';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const authority = new Authority(scratch);
// For clients in this process and for the commands.
process.env['AWS_CA_BUNDLE'] = authority.caFile;

const random = new SeededRandom(SOAK_SEED);
const STATES = twoStates(random);
const CHANGES = getChanges(scratch, STATES);

const FLIP = ['flip'] as const;
const NETWORK = FAULTS.filter((fault) => fault !== 'flip');
/** Without delays, on which commands, whose idle timeout is 30 s, would spend most of the time. */
const QUICK = NETWORK.filter((fault) => fault !== 'delay');

/** A change without faults. */
interface Undisturbed {
  requests: number;
  before: Snapshot;
  after: Snapshot;
  expected: Expected;
}

describeOnEachS3('a network with faults, behind it', (start, server) => {
  let endpoint: string;
  let store: S3Store;
  let places = 0;
  const newRepository = (): TestRepository => new TestRepository(store, `${(places += 1)}/models`);
  const plans = new Map<Change, Undisturbed>();

  beforeAll(async () => {
    endpoint = await withoutWaiting(scratch, (await start(scratch)).endpoint);
    store = await openBucket(scratch, endpoint, 'faults');
    for (const change of CHANGES) plans.set(change, await undisturbed(change));
  });

  const everything = async (): Promise<string[]> => (await store.list('')).map(({ key, etag }) => `${key} ${etag}`);

  /** Runs `work` through a proxy with faults, with a client that has short timeouts. */
  async function withFaults<T>(
    options: { rate: number; kinds: readonly Fault[]; only?: () => boolean },
    place: TestRepository,
    work: (through: TestRepository, proxy: FaultProxy) => Promise<T>,
  ): Promise<T> {
    const plain = await startFaultProxy(endpoint, { seed: random.integer(1, 1e9), delayMs: 1500, ...options });
    const front = await startFront(random, plain.endpoint, authority);
    const proxy = { ...plain, endpoint: front.endpoint };
    const impatience = options.rate === 0 ? {} : { idleTimeoutMs: 500 };
    const settings = { deadlineMs: 60_000, ...impatience, ...(options.rate === 1 ? { attempts: 4 } : {}) };
    const client = await openBucket(scratch, proxy.endpoint, 'faults', { ...settings, create: false });
    try {
      return await work(new TestRepository(client, place.prefix), proxy);
    } finally {
      client.close();
      await front.stop();
      await proxy.stop();
    }
  }

  async function undisturbed(change: Change): Promise<Undisturbed> {
    const place = newRepository();
    const ready = await change.prepare(place);
    const [before, configs] = [await place.snapshot(), await place.configs()];
    const requests = await withFaults({ rate: 0, kinds: NETWORK }, place, async (through, proxy) => {
      await ready.run(through);
      return proxy.requests.length;
    });
    // Files that only one of the folders has stay in the bucket, unless they are pruned.
    const expected = expectedBetween([
      { files: { ...STATES.next, ...STATES.old }, configs },
      { files: { ...STATES.old, ...STATES.next }, configs: await place.configs() },
    ]);
    const after = await place.snapshot();
    await place.clear();
    return { requests, before, after, expected };
  }

  /** Observes the repository while `work` runs at a place that is prepared for the change. */
  async function observed<T>(
    change: Change,
    work: (place: TestRepository, ready: Awaited<ReturnType<Change['prepare']>>, plan: Undisturbed) => Promise<T>,
  ): Promise<T> {
    const plan = plans.get(change) as Undisturbed;
    const place = newRepository();
    const ready = await change.prepare(place);
    const observer = new ConsistencyChecker(store, `${place.prefix}/`, plan.expected);
    observer.start();
    try {
      const result = await work(place, ready, plan);
      await observer.stop();
      expect({ change: change.name, violations: observer.violations }).toEqual({ change: change.name, violations: [] });
      await place.clear();
      return result;
    } finally {
      await observer.stop();
    }
  }

  test(
    'publish with 20% faulty requests gives the same bytes with few more requests',
    async () => {
      const total = { changes: 0, requests: 0, faults: 0 };
      while (total.changes < repetitions(4)) {
        await observed(random.pick(CHANGES), async (place, ready, { requests, after }) => {
          await withFaults({ rate: 0.2, kinds: NETWORK }, place, async (through, proxy) => {
            await ready.run(through);
            expect(proxy.requests.length).toBeLessThan(3 * requests);
            total.requests += proxy.requests.length;
            total.faults += sum(proxy.counts);
          });
          expect(await place.snapshot()).toEqual(after);
          expect(await place.leftovers()).toEqual([]);
        });
        total.changes += 1;
      }
      expect(total.faults).toBeGreaterThan(total.requests / 20);
      report(`${server}, one request in five failed`, total);
    },
    patience(4, 60_000),
  );

  // The remaining tests do not depend on the server and take long.
  if (server === 'SeaweedFS' && !IS_LONG) return;

  test(
    'sync-models exits with 0 with 20% faulty requests',
    async () => {
      for (let i = 0; i < repetitions(1); i += 1) {
        await observed(random.pick(CHANGES), async (place, { command: [name, ...args] }, { after }) => {
          await withFaults({ rate: 0.2, kinds: QUICK }, place, async (_, proxy) => {
            const ended = await new PublishProcess(scratch, name, [...args, ...place.flags(proxy.endpoint)]).ended;
            expect(ended).toMatchObject({ code: 0 });
          });
          expect(await place.snapshot()).toEqual(after);
        });
      }
    },
    patience(1, 60_000),
  );

  test(
    'sync-models exits with 1 or 3 if the server disappears, and the next run succeeds',
    async () => {
      for (let i = 0; i < repetitions(1); i += 1) {
        await observed(random.pick(CHANGES), async (place, { command: [name, ...args] }, { requests, after }) => {
          const last = random.integer(3, requests - 3);
          let seen = 0;
          const only = (): boolean => (seen += 1) > last;
          const configs = await place.configs();
          await withFaults({ rate: 1, kinds: QUICK, only }, place, async (_, proxy) => {
            const ended = await new PublishProcess(scratch, name, [...args, ...place.flags(proxy.endpoint)]).ended;
            expect({ last, ...ended }).toMatchObject({ stderr: ONE_ERROR });
            // 1 promises that nothing changed. 3 means that the server was unavailable for restoring configurations.
            expect([1, 3]).toContain(ended.code);
            if (ended.code === 1) expect({ last, configs: await place.configs() }).toEqual({ last, configs });
          });
          const ended = await new PublishProcess(scratch, name, [...args, ...place.flags(endpoint)]).ended;
          expect({ last, ...ended }).toMatchObject({ code: 0 });
          expect({ last, found: await place.snapshot() }).toEqual({ last, found: after });
          expect({ last, left: await place.leftovers() }).toEqual({ last, left: [] });
        });
      }
    },
    patience(1, 120_000),
  );

  test('sync-models exits with 1 and changes nothing if every request fails', async () => {
    await observed(random.pick(CHANGES.slice(1)), async (place, { command: [name, ...args] }, { before }) => {
      const all = await everything();
      await withFaults({ rate: 1, kinds: QUICK }, place, async (_, proxy) => {
        const ended = await new PublishProcess(scratch, name, [...args, ...place.flags(proxy.endpoint)]).ended;
        expect(ended).toMatchObject({ code: 1, stderr: ONE_ERROR });
      });
      expect(await place.snapshot()).toEqual(before);
      expect(await everything()).toEqual(all);
    });
  });

  // SeaweedFS parses the XML of a request before it verifies the checksum, so a flipped byte can change a key.
  if (server === 'SeaweedFS') return;

  test(
    'publish stores no bytes that changed on the network',
    async () => {
      const total = { changes: 0, flips: 0, failures: 0 };
      while (total.changes < repetitions(2)) {
        await observed(random.pick(CHANGES), async (place, ready, { before, after }) => {
          const rate = total.changes % 3 === 1 ? 1 : 0.3;
          const failure = await withFaults({ rate, kinds: FLIP }, place, async (through, proxy) => {
            const result = await ready.run(through).then(
              () => undefined,
              (error: unknown) => error,
            );
            total.flips += sum(proxy.counts);
            return result;
          });
          if (failure === undefined) expect(await place.snapshot()).toEqual(after);
          else {
            total.failures += 1;
            expect(failure).toBeInstanceOf(UserError);
            if (rate === 1) expect(await place.snapshot()).toEqual(before);
          }
          expect({ rate, failure }).toEqual({
            rate,
            failure: rate === 1 ? (expect.any(UserError) as UserError) : undefined,
          });
          expect(await place.wrongCopies()).toEqual([]);
        });
        total.changes += 1;
      }
      expect(total.flips).toBeGreaterThan(0);
      report(`${server}, bytes flipped`, total);
    },
    patience(2, 60_000),
  );
});

const ONE_ERROR = expect.stringMatching(/^(?!.*\n\s+at )[\s\S]*\nerror: (?![\s\S]*\nerror: )/) as string;

const sum = (counts: Record<string, number>): number =>
  Object.values(counts).reduce((total, count) => total + count, 0);
