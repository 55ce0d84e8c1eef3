import { join } from 'node:path';
import type { S3Store } from '../../src/s3/store';
import { Authority, startTlsFront } from '../support/authority';
import { ConsistencyChecker, sha256, type Expected, type Snapshot } from '../support/consistency-checker';
import { PublishProcess, type Ended } from '../support/publish-process';
import { openBucket } from '../support/s3';
import { describeOnEachS3 } from '../support/s3-servers';
import { Scratch } from '../support/temp-dir';
import { IS_LONG, patience, repetitions, report, SeededRandom, SOAK_SEED } from '../support/soak';
import { expectedBetween, stateOfTeam, twoStates, writeFiles, type Files } from '../support/soak-models';
import { TestRepository, withoutWaiting } from '../support/test-repository';
import { startRecordingProxy, type RecordingProxy } from '../support/recording-proxy';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const authority = new Authority(scratch);
// For clients in this process and for the commands.
process.env['AWS_CA_BUNDLE'] = authority.caFile;

const random = new SeededRandom(SOAK_SEED);
const BASE = twoStates(random).old;
const BASE_FOLDER = writeFiles(join(scratch.directory, 'base'), BASE);

interface Team {
  files: Files;
  folder: string;
}

/** Two folders that were derived from the same one, and the results of publishing them in each order. */
interface Rivalry {
  teams: [Team, Team];
  /** Origins of the releases, in order -> the repository afterwards. */
  after: Map<string, Snapshot>;
  expected: Expected;
  /** Number of requests of one publication. */
  requests: number;
}

const RIVALS = [
  ['the same version numbers', 2, 2],
  ['other version numbers', 2, 3],
] as const;

/** Longer than the expiry time of a lock that its publisher does not renew. */
const EXPIRED_MS = 61_000;

describeOnEachS3('two publishers on', (start, server) => {
  let endpoint: string;
  let store: S3Store;
  let taps: [RecordingProxy, RecordingProxy];
  /** Endpoints of a tap, without and with TLS. */
  const endpoints = new Map<RecordingProxy, string[]>();
  let places = 0;
  const newRepository = (): TestRepository => new TestRepository(store, `${(places += 1)}/models`);
  const rivalries: Rivalry[] = [];

  beforeAll(async () => {
    endpoint = await withoutWaiting(scratch, (await start(scratch)).endpoint);
    store = await openBucket(scratch, endpoint, 'rivals');
    taps = [await startRecordingProxy(endpoint), await startRecordingProxy(endpoint)];
    for (const tap of taps) {
      scratch.defer(() => tap.stop());
      const front = await startTlsFront(tap.endpoint, authority);
      scratch.defer(() => front.stop());
      endpoints.set(tap, [tap.endpoint, front.endpoint]);
    }
    for (const [name, one, two] of RIVALS) {
      const team = (who: string, version: number): Team => {
        const files = stateOfTeam(BASE, who, version, random);
        return { files, folder: writeFiles(join(scratch.directory, server, name, who), files) };
      };
      rivalries.push(await inOrder([team('red', one), team('blue', two)]));
    }
  });

  /** Publishes both teams sequentially, in both orders. */
  async function inOrder(teams: [Team, Team]): Promise<Rivalry> {
    const after = new Map<string, Snapshot>();
    const states: Parameters<typeof expectedBetween>[0][number][] = [];
    let requests = 0;
    for (const order of [teams, [...teams].reverse()]) {
      const place = newRepository();
      await place.publish(BASE_FOLDER);
      states.push({ files: BASE, configs: await place.configs() });
      const before = taps[0].requests.length;
      const through = new TestRepository(
        await openBucket(scratch, taps[0].endpoint, 'rivals', { create: false }),
        place.prefix,
      );
      let files = BASE;
      for (const team of order) {
        // If the version numbers are the same, the second publication is rejected.
        if ((await settled(through.publish(team.folder))) !== 'done') continue;
        files = { ...files, ...team.files };
        after.set((await place.origins()).slice(1).join(), await place.snapshot());
        states.push({ files, configs: await place.configs() });
        if (requests === 0) requests = taps[0].requests.length - before;
      }
      await place.clear();
    }
    return { teams, after, expected: expectedBetween(states), requests };
  }

  const begin = (team: Team, tap: RecordingProxy, place: TestRepository): PublishProcess =>
    new PublishProcess(scratch, 'sync-models', [
      '--repo',
      team.folder,
      '--wait',
      '200',
      ...place.flags(random.pick(endpoints.get(tap) as string[])),
    ]);

  /** Lets both teams publish, then compares the repository with the one expected from the order of the releases. */
  async function contest(
    { teams, after, expected }: Rivalry,
    work: (place: TestRepository, observer: ConsistencyChecker) => Promise<[Outcome, Outcome]>,
    options: { mayLeave: boolean },
  ): Promise<string> {
    const place = newRepository();
    await place.publish(BASE_FOLDER);
    const observer = new ConsistencyChecker(store, `${place.prefix}/`, expected);
    observer.start();
    try {
      const outcomes = await work(place, observer);
      for (const tap of taps) {
        tap.set({});
        await tap.untilQuiet();
      }
      await observer.stop();
      const origins = (await place.origins()).slice(1);
      const what = JSON.stringify({ origins, outcomes }, null, 2);
      const right = after.get(origins.join());
      const last = teams.find(({ folder }) => origins.at(-1) === `sync-models ${folder}`) as Team;
      // A publisher that was killed after the other one had ended leaves unfinished work, which the next run cleans up.
      if (outcomes.includes('killed')) await place.publish(last.folder);
      const found = await place.snapshot();
      for (const [key, hash] of found) {
        const left = teams.some(({ files }) => sha256(files[key] ?? '') === hash);
        if (options.mayLeave && right?.has(key) === false && /\/\d+\//.test(key) && left) found.delete(key);
      }
      expect({ what, found }).toEqual({ what, found: right });
      expect({ what, violations: observer.violations }).toEqual({ what, violations: [] });
      for (const [i, outcome] of outcomes.entries()) {
        const published = origins.includes(`sync-models ${teams[i]?.folder}`);
        if (outcome !== 'killed')
          expect({ what, team: i, outcome }).toEqual({ what, team: i, outcome: published ? 'done' : REFUSED });
      }
      expect({ what, changed: await place.changedByPublishing(last.folder) }).toEqual({ what, changed: [] });
      // Unfinished uploads of the rejected publisher may remain; its next run would resume them.
      const left = (await place.leftovers()).filter((text) => !(options.mayLeave && /^unfinished upload/.test(text)));
      expect({ what, left }).toEqual({ what, left: [] });
      await place.clear();
      return origins.map((origin) => (origin.endsWith('red') ? 'red' : 'blue')).join(' then ');
    } finally {
      await observer.stop();
    }
  }

  /** Runs `count` contests, with the rivalries in turn, and reports the number of each outcome. */
  async function tally(
    title: string,
    count: number,
    run: (rivalry: Rivalry, i: number) => Promise<string>,
  ): Promise<void> {
    const seen: Record<string, number> = {};
    for (let i = 0; i < count; i += 1) {
      const result = await run(rivalries[i % 2] as Rivalry, i);
      seen[result] = (seen[result] ?? 0) + 1;
    }
    report(`${server}, ${title}`, seen);
  }

  test(
    'concurrent publishers leave the complete repository of one or of both in sequence',
    async () => {
      await tally('two publishers', repetitions(4), (rivalry, i) => {
        const headStart = random.integer(0, rivalry.requests);
        const inProcess = i % 4 > 1;
        return contest(
          rivalry,
          async (place) => {
            const [red, blue] = rivalry.teams;
            if (inProcess)
              return Promise.all([settled(place.publish(red.folder)), settled(place.publish(blue.folder))]);
            const first = begin(red, taps[0], place);
            await reached(taps[0], headStart, first);
            const second = begin(blue, taps[1], place);
            return [getOutcome(await first.ended), getOutcome(await second.ended)];
          },
          { mayLeave: false },
        );
      });
    },
    patience(4, 60_000),
  );

  // The remaining tests depend on the server only by its conditional writes, which the test above covers.
  if (server === 'SeaweedFS' && !IS_LONG) return;

  test(
    'a publisher takes over after the other one is killed',
    async () => {
      await tally('one of two publishers killed', repetitions(2), (rivalry) => {
        const at = random.integer(4, rivalry.requests);
        return contest(
          rivalry,
          async (place, observer) => {
            const [red, blue] = rivalry.teams;
            const first = begin(red, taps[0], place);
            const second = begin(blue, taps[1], place);
            await reached(taps[0], at, first);
            first.kill();
            await first.ended;
            observer.noteStart();
            return [getOutcome(await first.ended), getOutcome(await second.ended)];
          },
          { mayLeave: true },
        );
      });
    },
    patience(2, 60_000),
  );

  const stopped = (name: string, count: number, clockOffsetMs: number | undefined): void =>
    test(
      name,
      async () => {
        await tally('one of two publishers stopped', count, (rivalry) => {
          const at = random.integer(4, rivalry.requests);
          return contest(
            rivalry,
            async (place, observer) => {
              const [red, blue] = rivalry.teams;
              const first = begin(red, taps[0], place);
              await reached(taps[0], at, first);
              first.pause();
              if (clockOffsetMs !== undefined) taps[1].set({ clockOffsetMs });
              const second = begin(blue, taps[1], place);
              const ended = await second.ended;
              observer.noteStart();
              first.resume();
              return [getOutcome(await first.ended), getOutcome(ended)];
            },
            { mayLeave: true },
          );
        });
      },
      120_000 + count * 100_000,
    );

  // Like the suspension of a laptop, during which the clock of the process stands still.
  stopped('one is stopped, without noticing, until its lock has expired', repetitions(2), EXPIRED_MS);
  if (IS_LONG) stopped('one is stopped for longer than its lock holds', 3, undefined);
});

/** `done`, `killed`, or the error output. */
type Outcome = string;

/** Error of a publisher that another one preceded, or whose lock another one took over. */
const REFUSED = expect.stringMatching(/cannot change published versions|another publisher/) as string;

const getOutcome = ({ code, signal, stderr }: Ended): Outcome =>
  signal === null ? (code === 0 ? 'done' : `exit code ${code}: ${stderr}`) : 'killed';

const settled = (publication: Promise<unknown>): Promise<Outcome> =>
  publication.then(
    () => 'done',
    (error: unknown) => (error as Error).message,
  );

/** Waits until a publisher has sent this many more requests, or has ended. */
async function reached(tap: RecordingProxy, requests: number, publisher: PublishProcess): Promise<void> {
  const last = tap.requests.length + requests;
  const there = new Promise<void>((resolve) => {
    const check = ({ number }: { number: number }): void => {
      if (number >= last) resolve();
    };
    tap.set({ onRequest: check });
    if (requests === 0) resolve();
  });
  await Promise.race([there, publisher.ended]);
}
