import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Manifest } from '../../src/release/manifest';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import type { S3Store } from '../../src/s3/store';
import { TestPod, Traffic } from '../support/pods';
import { sourceOf } from '../support/publish';
import { addingEnsemble, addingModel, answeringProgram, CRASH, onLoad, writeRepository } from '../support/repository';
import { startCommandLine, type Ended, type Running } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { IS_LONG, patience, repetitions, report, SeededRandom, SOAK_SEED } from '../support/soak';
import { TestRepository } from '../support/test-repository';

/**
 * Real servers with their agents, whose clients send requests to Ready replicas without a pause, while releases are published,
 * refused and rolled back, and while publishers, agents and servers are killed. No request fails, and no answer is wrong.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

const random = new SeededRandom(SOAK_SEED);
const NAMES = ['one', 'two', ...(IS_LONG ? ['three'] : [])];
const LOAD_TIMEOUT_MS = 40_000;
/** Of the model `side`. */
const SIDE = 5;
const folder = join(scratch.directory, 'repository');
let endpoint: string;
let store: S3Store;
let place: TestRepository;
let pods: TestPod[];
let traffic: Traffic;
/** Number of the served version. */
let serving = 1;
/** Number of the newest version that was written. */
let newest = 1;

const getAmount = (version: number): number => 10 * version;

/** The files of a release: a model, an ensemble of it, and another model. */
const release = (version: number): Record<string, string> => ({
  ...addingModel('adds', { [version]: getAmount(version) }),
  ...addingEnsemble('through', 'adds'),
  ...addingModel('side', { 1: SIDE }),
});

function write(files: Record<string, string>): void {
  rmSync(folder, { recursive: true, force: true });
  writeRepository(folder, files);
}

beforeAll(async () => {
  ({ endpoint } = await testS3(scratch));
  store = await openBucket(scratch, endpoint, 'replicas');
  place = new TestRepository(store, 'models');
  const start = (name: string) => TestPod.start(scratch, name, endpoint, place.location, LOAD_TIMEOUT_MS);
  pods = await Promise.all(NAMES.map(start));
  traffic = new Traffic(
    pods.map(({ target }) => target),
    ['adds', 'through', 'side'],
  );
  write(release(1));
  await publish();
  [getAmount(1), SIDE].forEach((amount) => traffic.admit(amount));
  traffic.start();
  scratch.defer(() => traffic.stop());
}, 900_000);

afterEach(async () => {
  const status = await repositoryStatus(place, sourceOf(pods));
  expect({ status, isAsReleased: isAsReleased(status) }).toEqual({ status, isAsReleased: true });
  expect(traffic.faults).toEqual([]);
});
afterAll(() => report('replicas', { requests: traffic.requests, versions: newest }));

const tried = () => ({ agents: sourceOf(pods), untried: false });
const publish = (prune = false): Promise<Manifest> => place.publish(folder, { ...tried(), prune });

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

async function publishNext(change = (files: Record<string, string>) => files): Promise<void> {
  newest += 1;
  write(change(release(newest)));
  await towards(newest, () => publish());
}

/** Rolls back to the previous release, which need not have the previous version. */
async function rollBack(): Promise<void> {
  const previous = (await place.head())?.previous as string;
  const version = (await place.release(previous)).models['adds']?.served[0] as number;
  await towards(version, () => place.rollBack(previous, tried()));
}

const begin = (name: string, ...args: string[]): Running => {
  const flags = [...args, ...place.flags(endpoint), ...pods.flatMap((pod) => pod.flags)];
  return startCommandLine(name, flags, S3_ENVIRONMENT, scratch);
};
const run = (name: string, ...args: string[]): Promise<Ended> => begin(name, ...args).ended;

/** Gives the tensor between the ensemble and its step another name. */
const withOtherInterface = (files: Record<string, string>): Record<string, string> => ({
  ...files,
  ...Object.fromEntries(
    Object.entries(files).flatMap(([path, text]) => {
      if (path.startsWith('adds/')) return [[path, text.replaceAll('"y"', '"z"')]];
      return path === 'through/config.pbtxt' ? [[path, text.replace('key: "y"', 'key: "z"')]] : [];
    }),
  ),
});

test(
  'publish and rollback lose no answer and serve only released versions',
  async () => {
    for (let i = 0; i < repetitions(3); i += 1) {
      await (i % 3 === 2 ? rollBack() : publishNext(i % 2 === 0 ? undefined : withOtherInterface));
      expect(traffic.faults).toEqual([]);
    }
  },
  patience(3, 120_000),
);

const golden = (answer: number): string =>
  JSON.stringify({ inputs: [{ name: 'x', data: [1] }], outputs: [{ name: 'y', data: [answer] }] });

interface Refusal {
  reason: RegExp;
  /** Only the long form has it. */
  long?: true;
  /** Makes the release one that is refused. `program` is its version of `adds`. */
  spoil: (files: Record<string, string>, program: string) => Record<string, string>;
}
const withPrelude = (files: Record<string, string>, program: string, prelude: string): Record<string, string> => ({
  ...files,
  [program]: `${prelude}${files[program]}`,
});
const BROKEN = 'raise RuntimeError("the weights are broken")\n';
const REFUSALS: Readonly<Record<string, Refusal>> = {
  'a wrong golden answer': {
    reason: /wrong answer to golden request one/,
    spoil: (files) => ({ ...files, 'adds/golden/one.json': golden(7) }),
  },
  NaN: {
    reason: /wrong answer to golden request one: y\[0\] is NaN/,
    long: true,
    spoil: (files, program) => ({
      ...files,
      [program]: answeringProgram('x', 'y', 'x + np.float32("nan")'),
      'adds/golden/one.json': golden(2),
    }),
  },
  'a crash': {
    reason: /Triton ended while it loaded adds/,
    spoil: (files, program) => withPrelude(files, program, onLoad('True', CRASH)),
  },
  'a load that takes too long': {
    reason: /adds/,
    long: true,
    spoil: (files, program) => withPrelude(files, program, onLoad('True', `time.sleep(${LOAD_TIMEOUT_MS / 500})`)),
  },
  'a removed model beside one that does not load': {
    reason: /the weights are broken/,
    spoil: (files, program) =>
      Object.fromEntries(
        Object.entries(withPrelude(files, program, BROKEN)).filter(([path]) => !path.startsWith('side/')),
      ),
  },
  'another interface of an ensemble and a step that does not load': {
    reason: /the weights are broken/,
    spoil: (files, program) => withPrelude(withOtherInterface(files), program, BROKEN),
  },
};

test.each(Object.entries(REFUSALS).filter(([, { long }]) => long !== true || IS_LONG))(
  'no client notices a release that is refused because of %s',
  async (_, { reason, spoil }) => {
    for (let i = 0; i < (IS_LONG ? 17 : 1); i += 1) {
      const refused = newest + 1;
      write(spoil(release(refused), `adds/${refused}/model.py`));
      await expect(publish(true)).rejects.toThrow(reason);
      expect((await place.head())?.models['adds']?.served).toEqual([serving]);
      expect(traffic.faults).toEqual([]);
    }
    await publishNext(); // The number of the refused version.
  },
  patience(1, 300_000),
);

test(
  'if the last replica refuses a release, the others return to the former one',
  async () => {
    newest += 1;
    const fails = onLoad(`server == "${NAMES.at(-1)}"`, BROKEN.trimEnd());
    write(withPrelude(release(newest), `adds/${newest}/model.py`, fails));
    await expect(towards(newest, () => publish())).rejects.toThrow(
      new RegExp(`^${NAMES.at(-1)} does not serve the release: [\\s\\S]*the weights are broken`),
    );
  },
  patience(1, 120_000),
);

test(
  'the next run completes a publish after a publisher, an agent or a server was killed at any moment',
  async () => {
    const kills: Record<string, number> = { publisher: 0, agent: 0, Triton: 0 };
    for (let i = 0; i < (IS_LONG ? 200 : 3); i += 1) {
      newest += 1;
      write(release(newest));
      const killed = Object.keys(kills)[i % 3] as 'publisher' | 'agent' | 'Triton';
      await towards(newest, async () => {
        const publisher = begin('sync-models', '--repo', folder);
        await Promise.race([publisher.ended, sleep(random.integer(500, 6000))]);
        if (killed === 'publisher') publisher.child.kill('SIGKILL');
        else await random.pick(pods).kill(killed, 'adds');
        const { code, signal, stderr } = await publisher.ended;
        if (signal === null) expect({ killed, code, stderr }).toMatchObject({ code: expect.any(Number) as number });
        kills[killed] = (kills[killed] ?? 0) + 1;
        const next = await run('sync-models', '--repo', folder);
        expect({ killed, code: next.code, stderr: next.code === 0 ? '' : next.stderr }).toEqual({
          ...{ killed, code: 0, stderr: '' },
        });
        const { id } = (await place.head()) as Manifest;
        await Promise.all(pods.map((pod) => pod.untilServes(id)));
      });
      expect(traffic.faults).toEqual([]);
    }
    report('kills', kills);
  },
  patience(IS_LONG ? 8 : 3, 300_000),
);
