import { Authority, startTlsFront } from '../support/authority';
import { getChanges, type Change, type ReadyChange } from '../support/soak-changes';
import { expectedBetween, twoStates } from '../support/soak-models';
import { ConsistencyChecker, type Expected, type Snapshot } from '../support/consistency-checker';
import { PublishProcess, type Ended } from '../support/publish-process';
import { openBucket } from '../support/s3';
import { describeOnEachS3 } from '../support/s3-servers';
import { Scratch } from '../support/temp-dir';
import { patience, repetitions, report, SeededRandom, SOAK_SEED } from '../support/soak';
import { TestRepository, withoutWaiting } from '../support/test-repository';
import {
  startRecordingProxy,
  type RecordingProxy,
  type RecordedRequest,
  type RecordingProxyOptions,
} from '../support/recording-proxy';
import type { S3Store } from '../../src/s3/store';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const authority = new Authority(scratch);
// For clients in this process and for the commands.
process.env['AWS_CA_BUNDLE'] = authority.caFile;

const random = new SeededRandom(SOAK_SEED);
const STATES = twoStates(random);
const CHANGES = getChanges(scratch, STATES);

/** A change without interruptions. */
interface Undisturbed {
  requests: number;
  /** Duration from the first request to the end. */
  milliseconds: number;
  after: Snapshot;
  expected: Expected;
}

/** When a publisher is killed. */
type Moment = { request: number; answered: boolean } | { afterMs: number };

describeOnEachS3('publishers on', (start, server) => {
  let store: S3Store;
  let tap: RecordingProxy;
  /** Of the tap, without and with TLS. */
  let endpoints: string[];
  let places = 0;
  const newRepository = (): TestRepository => new TestRepository(store, `${(places += 1)}/models`);

  beforeAll(async () => {
    const endpoint = await withoutWaiting(scratch, (await start(scratch)).endpoint);
    store = await openBucket(scratch, endpoint, 'killed');
    tap = await startRecordingProxy(endpoint);
    scratch.defer(() => tap.stop());
    const front = await startTlsFront(tap.endpoint, authority);
    scratch.defer(() => front.stop());
    endpoints = [tap.endpoint, front.endpoint];
  });

  /** Runs the command and kills it at `moment`, if it gets that far. */
  async function run(
    [command, ...args]: ReadyChange['command'],
    place: TestRepository,
    moment?: Moment,
  ): Promise<Ended> {
    const child = new PublishProcess(scratch, command, [...args, ...place.flags(random.pick(endpoints))]);
    if (moment !== undefined) tap.set(killAt(child, moment, tap.requests.length + 1));
    const ended = await child.ended;
    tap.set({});
    await tap.untilQuiet();
    return ended;
  }

  async function undisturbed(change: Change): Promise<Undisturbed> {
    const place = newRepository();
    const { command } = await change.prepare(place);
    const before = await place.configs();
    const first = tap.requests.length;
    let started = 0;
    tap.set({ onRequest: () => (started = started === 0 ? performance.now() : started) });
    expect(await run(command, place)).toMatchObject({ code: 0 });
    const milliseconds = performance.now() - started;
    // Files that only one of the folders has stay in the bucket, unless they are pruned.
    const expected = expectedBetween([
      { files: { ...STATES.next, ...STATES.old }, configs: before },
      { files: { ...STATES.old, ...STATES.next }, configs: await place.configs() },
    ]);
    const after = await place.snapshot();
    expect(await place.leftovers()).toEqual([]);
    await place.clear();
    return { requests: tap.requests.length - first, milliseconds, after, expected };
  }

  async function betweenRequests(change: Change): Promise<void> {
    const { expected, after } = await undisturbed(change);
    const place = newRepository();
    const { command } = await change.prepare(place);
    const observer = new ConsistencyChecker(store, `${place.prefix}/`, expected);
    tap.set(lookAfterWrites(observer));
    expect(await run(command, place)).toMatchObject({ code: 0 });
    expect(observer.violations).toEqual([]);
    expect(observer.states.size).toBeGreaterThan(2);
    expect(await place.snapshot()).toEqual(after);
    await place.clear();
  }

  // The order of the requests does not depend on the server.
  if (server === 'versitygw')
    test.each(CHANGES)(
      '$name: all files named by configurations are complete between any two requests',
      betweenRequests,
    );

  test(
    'a publisher killed at any request leaves a consistent repository, and the next run gives the same bytes',
    async () => {
      const plans = new Map<Change, Undisturbed>();
      for (const change of CHANGES) plans.set(change, await undisturbed(change));
      const moments = new Moments(plans);
      const counts = { kills: 0, looks: 0, states: 0 };
      while (counts.kills < repetitions(10)) {
        const { change, moment } = moments.next();
        const { after, expected } = plans.get(change) as Undisturbed;
        const place = newRepository();
        const { command } = await change.prepare(place);
        const observer = new ConsistencyChecker(store, `${place.prefix}/`, expected);
        const killed: Moment[] = [];
        observer.start();
        try {
          for (let at = moment; ; at = moments.another(change)) {
            observer.noteStart();
            const { signal } = await run(command, place, at);
            if (signal === 'SIGKILL') killed.push(at);
            if (!random.chance(0.35)) break;
          }
          observer.noteStart();
          if (random.chance(0.3)) tap.set(lookAfterWrites(observer));
          const { code, stderr } = await run(command, place);
          await observer.stop();
          const what = `${change.name}, killed at ${JSON.stringify(killed)}`;
          expect({ what, code, stderr: code === 0 ? '' : stderr }).toEqual({ what, code: 0, stderr: '' });
          expect({ what, violations: observer.violations }).toEqual({ what, violations: [] });
          expect({ what, found: await place.snapshot() }).toEqual({ what, found: after });
          expect({ what, leftovers: await place.leftovers() }).toEqual({ what, leftovers: [] });
        } finally {
          await observer.stop();
        }
        counts.kills += killed.length;
        counts.looks += observer.looks;
        counts.states += observer.states.size;
        await place.clear();
      }
      report(`${server}, killed publishers`, counts);
    },
    patience(10, 60_000),
  );
});

/** Makes the publisher wait after each write until the observer has read the repository. */
function lookAfterWrites(observer: ConsistencyChecker): RecordingProxyOptions {
  return {
    onAnswer: ({ method }) => (method === 'GET' || method === 'HEAD' ? undefined : observer.look()),
  };
}

/** Makes the tap kill the publisher, whose first request has the number `first`. */
function killAt(child: PublishProcess, moment: Moment, first: number): RecordingProxyOptions {
  if ('afterMs' in moment) {
    return {
      onRequest: ({ number }) => {
        if (number === first) setTimeout(() => child.kill(), moment.afterMs).unref();
      },
    };
  }
  const hit = ({ number }: RecordedRequest): boolean => number === first + moment.request - 1;
  if (moment.answered) {
    return {
      onAnswer: (request) => {
        if (hit(request)) child.kill();
      },
    };
  }
  return {
    onRequest: (request) => {
      if (!hit(request)) return true;
      child.kill();
      return false;
    },
  };
}

/** Moments of kills: every request of every change once, in random order, mixed with random times. */
class Moments {
  private queue: { change: Change; moment: Moment }[] = [];

  constructor(private readonly plans: ReadonlyMap<Change, Undisturbed>) {}

  next(): { change: Change; moment: Moment } {
    if (random.chance(0.3)) {
      const change = random.pick(CHANGES);
      const { milliseconds } = this.plans.get(change) as Undisturbed;
      return { change, moment: { afterMs: random.fraction() * milliseconds } };
    }
    if (this.queue.length === 0) this.fill();
    return this.queue.splice(random.integer(0, this.queue.length - 1), 1)[0] as { change: Change; moment: Moment };
  }

  /** A moment for a publisher that first cleans up after a killed one. */
  another(change: Change): Moment {
    const { requests } = this.plans.get(change) as Undisturbed;
    return { request: random.integer(1, requests), answered: random.chance(0.5) };
  }

  private fill(): void {
    for (const [change, { requests }] of this.plans) {
      for (let request = 1; request <= requests; request += 1) {
        for (const answered of [false, true]) this.queue.push({ change, moment: { request, answered } });
      }
    }
  }
}
