import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { tritonRepositoryUrl } from '../../src/release/location';
import type { S3Store } from '../../src/s3/store';
import { fakeTriton, type FakeTriton } from '../support/fake-triton';
import { GOLDEN_MODELS, goldenModel, harmless, MUTANTS, type GoldenModel } from '../support/golden-models';
import { writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { IS_LONG, report, SeededRandom, SOAK_SEED } from '../support/soak';
import { TestRepository } from '../support/test-repository';
import { ONE_BY_ONE, testReplicas, testTriton, type TestTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const random = new SeededRandom(SOAK_SEED);
const folder = join(scratch.directory, 'repository');
const kinds = Object.entries(MUTANTS);
/** Number of mutants, and number of re-traces. The short form has each kind of mutant, and each model, at least once. */
const ATTEMPTS = IS_LONG ? 100 : kinds.length;
const PATIENCE_MS = 3_600_000;
let store: S3Store;
let place: TestRepository;
let canary: TestTriton;
/** Accepts all requests. Its loads show how far a rollout got. */
let second: FakeTriton;

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, 'golden');
  place = new TestRepository(store, 'models');
  await ensurePlaceholder(store, place.location);
  canary = await testTriton(scratch, tritonRepositoryUrl(place.location, endpoint), { extraArguments: [ONE_BY_ONE] });
  second = await fakeTriton(scratch, store);
  writeRepository(
    folder,
    Object.assign({}, ...GOLDEN_MODELS.map((model) => goldenModel(model, 1))) as Record<string, string>,
  );
  await place.publish(folder, { replicas: testReplicas([canary.httpUrl]) });
  await place.publish(folder, { replicas: testReplicas([second.url]), noAsk: true });
  second.loads.splice(0);
});

/** Publishes a folder with only these files. */
async function attempt(files: Record<string, string>, urls: readonly string[]): Promise<unknown> {
  rmSync(folder, { recursive: true, force: true });
  writeRepository(folder, files);
  return place.publish(folder, { replicas: testReplicas(urls) });
}

const served = async ({ name }: GoldenModel): Promise<number[] | undefined> =>
  (await place.head())?.models[name]?.served;

test(
  'publish rejects every mutant of a model on the first replica and keeps the release',
  async () => {
    const counts: Record<string, number> = {};
    for (let i = 0; i < ATTEMPTS; i += 1) {
      const model = GOLDEN_MODELS[i % GOLDEN_MODELS.length] as GoldenModel;
      const [kind, mutant] = kinds[i % kinds.length] as (typeof kinds)[number];
      const { weightsFrom, ...deviation } = mutant(model, random);
      const failed = attempt(goldenModel(model, 2, deviation, weightsFrom), [canary.httpUrl, second.url]);
      await expect(failed).rejects.toThrow(/version 2 gives a wrong answer to golden request 2\/traced-0: y/);
      expect(second.loads).toEqual([]);
      expect(await served(model)).toEqual([1]);
      counts[kind] = (counts[kind] ?? 0) + 1;
    }
    report('refused mutants', counts);
  },
  PATIENCE_MS,
);

test(
  'publish accepts every re-trace with equal answers',
  async () => {
    let released = 0;
    for (let version = 3; released < ATTEMPTS; version += 1) {
      const traced = GOLDEN_MODELS.map((model) => goldenModel(model, version, harmless(random)));
      await attempt(Object.assign({}, ...traced) as Record<string, string>, [canary.httpUrl]);
      for (const model of GOLDEN_MODELS) expect(await served(model)).toEqual([version]);
      released += GOLDEN_MODELS.length;
    }
    report('re-traces', { released });
  },
  PATIENCE_MS,
);
