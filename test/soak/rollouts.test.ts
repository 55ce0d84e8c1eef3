import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { tritonRepositoryUrl } from '../../src/release/location';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import type { ReplicaSource } from '../../src/cluster/source';
import type { S3Store } from '../../src/s3/store';
import { startFaultProxy } from '../support/fault-proxy';
import { PublishProcess, type Ended } from '../support/publish-process';
import { addingEnsemble, addingModel, onLoad, writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { IS_LONG, patience, repetitions, report, SeededRandom, SOAK_SEED } from '../support/soak';
import { TestRepository } from '../support/test-repository';
import { startRecordingProxy, type RecordingProxy } from '../support/recording-proxy';
import { Traffic } from '../support/traffic';
import { ONE_BY_ONE, testReplicas, testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const random = new SeededRandom(SOAK_SEED);
const SERVERS = ['one', 'two', ...(IS_LONG ? ['three'] : [])];
const folder = join(scratch.directory, 'repository');
let store: S3Store;
let place: TestRepository;
let tap: RecordingProxy;
let urls: string[];
let traffic: Traffic;
/** Number of the served version. */
let serving = 1;
/** Number of the newest version that was written. */
let newest = 1;

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, 'rollouts');
  place = new TestRepository(store, 'models');
  tap = await startRecordingProxy(endpoint);
  scratch.defer(() => tap.stop());
  await ensurePlaceholder(store, place.location);
  const repository = tritonRepositoryUrl(place.location, endpoint);
  urls = [];
  // One load at a time: with parallel loads, this Triton release may crash when one fails (docs/operations.md).
  for (const name of SERVERS)
    urls.push((await testTriton(scratch, repository, { name, extraArguments: [ONE_BY_ONE] })).httpUrl);
  traffic = new Traffic(urls, ['adds', 'through']);
  writeVersion(1);
  await place.publish(folder, { replicas: testReplicas(urls) });
  traffic.admit(getAmount(1));
  traffic.start();
  scratch.defer(() => traffic.stop());
});

afterEach(async () => {
  expect(traffic.faults).toEqual([]);
  await expectInService();
});

const getAmount = (version: number): number => 10 * version;

/** Writes a folder whose model has only this version. `prelude` is Python code that runs when the model is loaded. */
function writeVersion(version: number, prelude = ''): void {
  rmSync(folder, { recursive: true, force: true });
  const files = { ...addingModel('adds', { [version]: getAmount(version) }), ...addingEnsemble('through', 'adds') };
  files[`adds/${version}/model.py`] = `${prelude}${files[`adds/${version}/model.py`]}`;
  writeRepository(folder, files);
}

/** Python code that fails on the servers where `condition` is true. */
const failsOn = (condition: string): string => onLoad(condition, 'raise RuntimeError("the weights are broken")');

/** While `work` runs both versions may answer; afterwards only the version that is then served. */
async function towards<T>(version: number, work: () => Promise<T>): Promise<T> {
  if (version !== serving) traffic.admit(getAmount(version));
  const before = serving;
  try {
    const result = await work();
    serving = version;
    return result;
  } finally {
    for (const one of [before, version]) if (one !== serving) traffic.retire(getAmount(one));
  }
}

const replicas = (): { replicas: ReplicaSource } => ({ replicas: testReplicas(urls) });

async function publishNext(): Promise<void> {
  newest += 1;
  writeVersion(newest);
  await towards(newest, () => place.publish(folder, replicas()));
}

/** Rolls back to the previous release, which need not have the previous version. */
async function rollBack(): Promise<void> {
  const previous = (await place.head())?.previous as string;
  const version = (await place.release(previous)).models['adds']?.served[0] as number;
  await towards(version, () => place.rollBack(previous, replicas()));
}

/** Expects that every server is ready and serves the versions of the release. */
async function expectInService(): Promise<void> {
  const status = await repositoryStatus(store, place.location, testReplicas(urls));
  expect(status.replicas.map(({ versions }) => versions.filter(({ ok }) => !ok))).toEqual(urls.map(() => []));
  expect(isAsReleased(status)).toBe(true);
  for (const url of urls) expect((await fetch(`${url}/v2/health/ready`)).status).toBe(200);
}

/** Runs sync-models on the servers, and kills the process when `killed` resolves. */
async function sync(endpoint: string, killed?: (child: PublishProcess) => Promise<unknown>): Promise<Ended> {
  const target = [...place.flags(endpoint), ...urls.flatMap((url) => ['--triton', url])];
  const child = new PublishProcess(scratch, 'sync-models', ['--repo', folder, ...target]);
  if (killed !== undefined) await killed(child).then(() => child.kill());
  return child.ended;
}

test(
  'publish and rollback under traffic lose no answer and serve only released versions',
  async () => {
    for (let i = 0; i < repetitions(4); i += 1) {
      await (i % 3 === 2 ? rollBack() : publishNext());
      if (i % 10 === 0) await expectInService();
      expect(traffic.faults).toEqual([]);
    }
  },
  patience(4, 60_000),
);

test.each([
  ['every server', 'True'],
  ['the last server alone', `server == "${SERVERS.at(-1)}"`],
])(
  'the previous version keeps answering everywhere if %s cannot load a version',
  async (_, where) => {
    for (let i = 0; i < repetitions(1); i += 1) {
      const broken = newest + 1;
      writeVersion(broken, failsOn(where));
      const failed = towards(broken, () => place.publish(folder, replicas()));
      await expect(failed).rejects.toThrow(/could not load adds[\s\S]*the weights are broken/);
      expect((await place.head())?.models['adds']?.served).toEqual([serving]);
      await publishNext(); // The same version with valid weights.
    }
  },
  patience(1, 60_000),
);

test(
  'the next run completes a rollout whose publisher was killed at any moment',
  async () => {
    let kills = 0;
    for (let i = 0; i < repetitions(2); i += 1) {
      newest += 1;
      writeVersion(newest);
      await towards(newest, async () => {
        const killed = await sync(tap.endpoint, (child) => Promise.race([child.ended, randomMoment()]));
        if (killed.signal === 'SIGKILL') kills += 1;
        const { code, stderr } = await sync(tap.endpoint);
        expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
      });
    }
    report('rollouts', { kills });
  },
  patience(2, 60_000),
);

/** Resolves immediately after the configuration was written, or while the servers load it. */
async function randomMoment(): Promise<void> {
  await new Promise<void>((resolve) => {
    tap.set({
      onAnswer: ({ method, path }) => {
        if (method !== 'PUT' || !path.endsWith('/adds/config.pbtxt')) return;
        tap.set({});
        if (random.chance(0.3)) resolve();
        else setTimeout(resolve, random.integer(0, 3000));
      },
    });
  });
}

test('a model whose removal fails on the last replica stays in service', async () => {
  const side = addingModel('side', { 1: 5 });
  newest += 1;
  writeVersion(newest);
  writeRepository(folder, side);
  await towards(newest, () => place.publish(folder, replicas()));
  const watch = new Traffic(urls, ['side']);
  watch.admit(5);
  watch.start();
  const broken = newest + 1;
  writeVersion(broken, failsOn(`server == "${SERVERS.at(-1)}"`));
  try {
    const failed = towards(broken, () => place.publish(folder, { ...replicas(), prune: true }));
    await expect(failed).rejects.toThrow(/could not load adds/);
    await expectInService();
  } finally {
    await watch.stop();
  }
  expect(watch.faults).toEqual([]);
});

test('sync-models exits with 1 and leaves the replicas unchanged if S3 is unreachable', async () => {
  const proxy = await startFaultProxy(tap.endpoint, { seed: SOAK_SEED, rate: 1, kinds: ['error500', 'resetBefore'] });
  try {
    const before = await place.snapshot();
    writeVersion(newest + 1);
    expect(await sync(proxy.endpoint)).toMatchObject({ code: 1 });
    expect(await place.snapshot()).toEqual(before);
  } finally {
    await proxy.stop();
  }
});

afterAll(() => {
  report('rollouts', { requests: traffic.requests, 'a second': traffic.perSecond, versions: newest });
});
