import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { Bake, type BakeRules } from '../../src/publish/bake';
import { BAKE_DEFAULTS } from '../../src/release/bake';
import type { Manifest } from '../../src/release/manifest';
import { TritonHttpClient } from '../../src/triton/http';
import { drawBake, RELEASES, type Behaviour } from '../support/drawn-traffic';
import { TestPod } from '../support/pods';
import { sourceOf } from '../support/publish';
import { addingModel, writeRepository } from '../support/repository';
import { startCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { IS_LONG, patience, report, SeededRandom, SOAK_SEED } from '../support/soak';
import { Scratch } from '../support/temp-dir';
import { TestRepository } from '../support/test-repository';
import { until } from '../support/wait-for';

/**
 * How often a bake takes a release back that answers as the one before it, how often one that answers worse, and when.
 * `npm run test:long` has the numbers of docs/benchmarks.md.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

const RATE = 50;
const MS = 10;
const LEAK_SECONDS = 15;
const SAME: Behaviour = () => ({ errors: 0, mean: MS });

/** What is wrong with a release, and how its program differs. */
const BAD: Record<string, { drawn: Behaviour; program: string }> = {
  '1% errors': { drawn: () => ({ errors: 0.01, mean: MS }), program: 'fail(0.01)' },
  '5% errors': { drawn: () => ({ errors: 0.05, mean: MS }), program: 'fail(0.05)' },
  'twice the time': { drawn: () => ({ errors: 0, mean: 2 * MS }), program: 'wait()' },
  'slower after a minute': {
    drawn: (seconds) => ({ errors: 0, mean: seconds < 60 ? MS : 2 * MS }),
    program: 'wait() if time.monotonic() - STARTED > 60 else None',
  },
  'a leak': {
    drawn: (seconds) => ({ errors: seconds < LEAK_SECONDS ? 0 : 1, mean: MS }),
    program: `leak()`,
  },
};

describe('drawn traffic', () => {
  const DRAWN = IS_LONG ? 5000 : 500;
  const models = { m: { served: [1] } } as unknown as Manifest['models'];
  const makeBake = (now: () => number): Bake =>
    new Bake(
      { ...BAKE_DEFAULTS, minutes: 5, withoutTraffic: 'continue' },
      { before: { id: RELEASES.before, models }, next: { id: RELEASES.next, models } },
      ['m'],
      now,
    );

  test('at most 1% of the releases go back that answer as the one before', () => {
    const random = new SeededRandom(SOAK_SEED);
    let worse = 0;
    for (let i = 0; i < DRAWN; i += 1) {
      const errors = random.pick([0, 0, 0.001, 0.01, 0.1]);
      const same: Behaviour = () => ({ errors, mean: MS });
      // The first requests to a model that was just loaded take longer.
      const first = random.pick([1, 1, 3]);
      const newer: Behaviour = (seconds) => ({ errors, mean: seconds < 10 ? first * MS : MS });
      const replicas = random.integer(2, 8);
      const drawn = {
        ...{ replicas, trying: random.integer(1, replicas - 1), requestsPerSecond: random.pick([2, 10, RATE, 100]) },
        ...{ spread: random.pick([0.1, 0.5, 1, 2]), noise: random.pick([0, 0.2, 0.5]) },
        ...{ group: random.integer(1, 5), older: same, newer },
      };
      if (drawBake(random, drawn, makeBake).worse) worse += 1;
    }
    report('equal releases with drawn traffic', { releases: DRAWN, 'went back': worse });
    expect(worse / DRAWN).toBeLessThanOrEqual(0.01);
  });

  test.each(Object.entries(BAD))('at least 99%% go back: %s', (name, { drawn: newer }) => {
    const random = new SeededRandom(SOAK_SEED);
    const seconds: number[] = [];
    const releases = DRAWN / Object.keys(BAD).length;
    for (let i = 0; i < releases; i += 1) {
      const drawn = { trying: 1, requestsPerSecond: RATE, spread: 0.5, noise: 0.1, older: SAME, newer };
      const found = drawBake(random, { ...drawn, replicas: random.integer(3, 4) }, makeBake);
      if (found.worse) seconds.push(found.seconds);
    }
    report(`${name}, drawn traffic`, { releases, 'went back': seconds.length, 'seconds (median)': median(seconds) });
    expect(seconds.length / releases).toBeGreaterThanOrEqual(0.99);
  });
});

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;

/** A model that takes a time for each request, and what else the program says for requests of clients. */
function model(version: number, program = 'None'): Record<string, string> {
  const { 'adds/config.pbtxt': config = '', ...files } = addingModel('adds', { [version]: version });
  const path = `adds/${version}/model.py`;
  const text = files[path] ?? '';
  const prelude = `import os, random, resource, time
STARTED = time.monotonic()
KEPT = []
def wait():
    time.sleep(${MS / 1000})
def fail(share):
    if random.random() < share:
        raise RuntimeError("no answer")
def leak():
    KEPT.append(bytes(${Math.round(200e6 / ((LEAK_SECONDS * RATE) / 4))}))
    if len(KEPT) * len(KEPT[0]) > 200e6:
        os.kill(os.getpid(), 9)  # as a kernel does without memory
`;
  const changed = text.replace(
    '            y = ',
    `            wait()\n            if x.any():\n                ${program}\n            y = `,
  );
  return { 'adds/config.pbtxt': config, [path]: prelude + changed };
}

/** Sends requests at a rate, by turns to the replicas in service, as a load balancer does. */
class Client {
  /** Failed requests to replicas that did not serve the release of a trial. */
  readonly faults: string[] = [];
  requests = 0;
  private timer: NodeJS.Timeout | undefined;
  private turn = 0;
  private readonly clients: TritonHttpClient[];
  /** Names of replicas whose requests may fail. */
  readonly trying = new Set<string>();

  constructor(private readonly pods: readonly TestPod[]) {
    this.clients = pods.map(({ replica }) => new TritonHttpClient(replica.tritonUrl));
  }

  start(): void {
    this.timer = setInterval(() => void this.ask(), 1000 / RATE);
  }

  stop(): void {
    clearInterval(this.timer);
    for (const client of this.clients) client.close();
  }

  private async ask(): Promise<void> {
    const due = this.pods.flatMap((pod, i) => (pod.target.isInService() ? [i] : []));
    this.turn += 1;
    const i = due[this.turn % due.length] ?? 0;
    const name = this.pods[i]?.name ?? '';
    this.requests += 1;
    // When the request is sent: an answer that never comes fails it later.
    const mayFail = this.trying.has(name);
    const input = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(1) } as const;
    await this.clients[i]?.infer('adds', [input]).catch((error: unknown) => {
      if (!mayFail) this.faults.push(`${name}: ${(error as Error).message}`);
    });
  }
}

/** Replicas, and the releases that a test publishes to them. */
class Fleet {
  readonly client: Client;
  readonly folder: string;
  private version = 0;

  private constructor(
    readonly place: TestRepository,
    readonly pods: readonly TestPod[],
  ) {
    this.client = new Client(pods);
    this.folder = join(scratch.directory, `models-${place.store.bucket}`);
  }

  static async start(replicas: number, index: number, endpoint: string): Promise<Fleet> {
    const place = new TestRepository(await openBucket(scratch, endpoint, `bake-${index}`), 'models');
    const names = Array.from({ length: replicas }, (_, i) => `fleet-${index}-${i}`);
    const pods = await Promise.all(names.map((name) => TestPod.start(scratch, name, endpoint, place.location)));
    return new Fleet(place, pods);
  }

  /** Writes the next version of the model. */
  write(program?: string): void {
    this.version += 1;
    rmSync(this.folder, { recursive: true, force: true });
    writeRepository(this.folder, model(this.version, program));
  }

  /** @returns why the release went back, or '', and the seconds from when the first replica served it */
  async publish(program: string | undefined, bake?: BakeRules): Promise<{ reason: string; seconds: number }> {
    this.write(program);
    let served = NaN;
    try {
      await this.place.publish(this.folder, {
        ...{ agents: sourceOf(this.pods), untried: false, bake },
        onStage: (text) => {
          if (text.endsWith(' loads the release')) this.client.trying.add(text.split(' ')[0] ?? '');
          if (text.includes(': serves the release') && Number.isNaN(served)) served = performance.now();
        },
      });
      return { reason: '', seconds: NaN };
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      return { reason: error.message, seconds: (performance.now() - served) / 1000 };
    } finally {
      this.client.trying.clear();
    }
  }
}

describe('real servers', () => {
  const RULES: BakeRules = { ...BAKE_DEFAULTS, minutes: 5, withoutTraffic: 'stop' };
  /** On each of four groups of replicas. */
  const SAME_RELEASES = IS_LONG ? 25 : 1;
  const EACH_BAD = IS_LONG ? 5 : 1;
  const IN_SHORT = new Set(['5% errors', 'twice the time']);
  const found = { same: 0, 'same, went back': 0, bad: 0, 'bad, went back': 0, requests: 0 };
  const seconds = new Map<string, number[]>();
  let endpoint: string;
  let fleets: Fleet[];

  beforeAll(async () => {
    ({ endpoint } = await testS3(scratch));
    fleets = await Promise.all((IS_LONG ? [3, 4, 3, 4] : [3]).map((replicas, i) => Fleet.start(replicas, i, endpoint)));
    for (const fleet of fleets) await fleet.publish(undefined);
  }, 900_000);

  test('status shows a bake, a release without requests goes back, and releases shows why', async () => {
    const [fleet] = fleets as [Fleet];
    const { place, pods, folder } = fleet;
    const begin = (name: string, ...args: string[]) =>
      startCommandLine(name, [...args, ...place.flags(endpoint)], S3_ENVIRONMENT, scratch);
    const replicas = pods.flatMap((pod) => pod.flags);
    fleet.write();
    const before = await place.head();
    const publish = begin('sync-models', '--repo', folder, '--bake', '30s', ...replicas);
    await until('status shows the bake', async () => {
      const { stdout } = await begin('status', ...replicas).ended;
      return /tries release \S+ of \S+: bake \d+ of 30 s: adds: no requests/.test(stdout);
    });
    expect(await publish.ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /could not be compared with the one before it: adds answered 0 requests, and 0 on the other replicas, in 0 common/,
      ) as string,
    });
    expect((await begin('releases').ended).stdout).toMatch(
      /adds 1 -> 2; bake not judged after 3\d.. s and 0 requests: adds/,
    );
    expect(await place.head()).toEqual(before);
    for (const pod of pods) await pod.untilServes(before?.id ?? '');
  }, 300_000);

  async function publishAll(fleet: Fleet): Promise<void> {
    const { client } = fleet;
    client.start();
    scratch.defer(() => client.stop());
    for (let i = 0; i < SAME_RELEASES; i += 1) {
      const { reason } = await fleet.publish(undefined, { ...RULES, minutes: 0.5 });
      found.same += 1;
      if (reason === '') continue;
      found['same, went back'] += 1;
      process.stderr.write(`equal: ${reason}\n`);
    }
    for (const [name, { program }] of Object.entries(BAD)) {
      if (!IS_LONG && !IN_SHORT.has(name)) continue;
      for (let i = 0; i < EACH_BAD; i += 1) {
        const { reason, seconds: took } = await fleet.publish(program, RULES);
        found.bad += 1;
        if (reason === '') continue;
        found['bad, went back'] += 1;
        seconds.set(name, [...(seconds.get(name) ?? []), took]);
        process.stderr.write(`${name}, ${took.toFixed(1)} s: ${reason.split('\n')[0]}\n`);
      }
    }
    client.stop();
    found.requests += client.requests;
    expect(client.faults).toEqual([]);
  }

  test(
    'releases that answer worse go back, and no request fails on the other replicas',
    async () => {
      await Promise.all(fleets.map(publishAll));
      report('releases with a bake', found);
      for (const [name, values] of seconds) report(name, { 'seconds (median)': median(values) });
      report('all bad releases', { 'seconds (median)': median([...seconds.values()].flat()) });
      expect(found['same, went back'] / found.same).toBeLessThanOrEqual(0.01);
      expect(found['bad, went back'] / found.bad).toBeGreaterThanOrEqual(0.99);
    },
    patience(1, 300_000) + (IS_LONG ? 3 * 3_600_000 : 0),
  );

  test('a release that answers at first and then hangs goes back, before its result is stored', async () => {
    const [fleet] = fleets as [Fleet];
    const { client, pods, place } = fleet;
    const put = place.store.putBytes.bind(place.store);
    let trials: unknown;
    const spy = jest.spyOn(place.store, 'putBytes').mockImplementation(async (key, ...rest) => {
      if (key.includes('/bakes/'))
        trials = (await Promise.all(pods.map((pod) => pod.getState()))).map(({ trial }) => trial);
      return put(key, ...rest);
    });
    const before = await place.head();
    client.start();
    const { reason } = await fleet.publish('time.sleep(1e6) if time.monotonic() - STARTED > 8 else None', RULES);
    client.stop();
    spy.mockRestore();
    expect(reason).toMatch(/adds \d+: no answer for .* s, in which each other replica gave \d+: it hangs/);
    expect(trials).toEqual([null, null, null]);
    for (const pod of pods) await pod.untilServes(before?.id ?? '');
  }, 300_000);
});
