import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Releases } from '../../src/publish/releases';
import type { S3Store } from '../../src/s3/store';
import { GOLDEN_MODELS, goldenModel, harmless, MUTANTS, type GoldenModel } from '../support/golden-models';
import { podPublisher, TestPod } from '../support/pods';
import { writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { IS_LONG, report, SeededRandom, SOAK_SEED } from '../support/soak';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'golden', prefix: 'models' };
const random = new SeededRandom(SOAK_SEED);
const folder = join(scratch.directory, 'repository');
const kinds = Object.entries(MUTANTS);
/** Number of mutants, and number of re-traces. The short form has each kind of mutant, and each model, at least once. */
const ATTEMPTS = IS_LONG ? 100 : kinds.length;
const PATIENCE_MS = 3_600_000;
let store: S3Store;
let pods: TestPod[];

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, LOCATION.bucket);
  pods = await Promise.all(['one', 'two'].map((name) => TestPod.start(scratch, name, endpoint, LOCATION)));
  await attempt(...GOLDEN_MODELS.map((model) => goldenModel(model, 1)));
}, PATIENCE_MS);

/** Publishes a folder with only these files. */
async function attempt(...files: Record<string, string>[]): Promise<unknown> {
  rmSync(folder, { recursive: true, force: true });
  writeRepository(folder, Object.assign({}, ...files) as Record<string, string>);
  return podPublisher(store, LOCATION, folder, pods).publish();
}

const served = async ({ name }: GoldenModel): Promise<number[] | undefined> =>
  (await Releases.read({ store, location: LOCATION })).current?.models[name]?.served;

test(
  'publish rejects every mutant of a model on the first replica and keeps the release',
  async () => {
    const counts: Record<string, number> = {};
    pods[1]?.events();
    for (let i = 0; i < ATTEMPTS; i += 1) {
      const model = GOLDEN_MODELS[i % GOLDEN_MODELS.length] as GoldenModel;
      const [kind, mutant] = kinds[i % kinds.length] as (typeof kinds)[number];
      const { weightsFrom, ...deviation } = mutant(model, random);
      await expect(attempt(goldenModel(model, 2, deviation, weightsFrom))).rejects.toThrow(
        /^one does not serve the release: .* version 2 gives a wrong answer to golden request 2\/traced-0: y/,
      );
      expect(pods[1]?.loads()).toEqual([]);
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
      await attempt(...GOLDEN_MODELS.map((model) => goldenModel(model, version, harmless(random))));
      for (const model of GOLDEN_MODELS) expect(await served(model)).toEqual([version]);
      released += GOLDEN_MODELS.length;
    }
    report('re-traces', { released });
  },
  PATIENCE_MS,
);
