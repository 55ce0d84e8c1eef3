import { join } from 'node:path';
import { publish } from '../../../src/publish/publish';
import { rollBack } from '../../../src/publish/rollback';
import { change } from '../../../src/publish/change';
import { VersionConflictError } from '../../../src/publish/apply/preconditions';
import type { ApplyOptions } from '../../../src/publish/apply/options';
import { RetainedReleases } from '../../../src/publish/trial/snapshot';
import { ONE_MODEL, TWO_MODELS } from '../../support/publish';
import { writeRepository } from '../../support/repository';
import { SeededRandom } from '../../support/soak';
import { Scratch } from '../../support/temp-dir';
import { VersionedBucket, VersionedStore } from '../../support/versioned-store';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A bucket of a repository for agents, without replicas. */
function emptyBucket(): ApplyOptions {
  const { store } = new VersionedStore(new VersionedBucket(), {
    ...{ random: new SeededRandom(1), loss: 0, late: 0, slowestMs: 0 },
  });
  return {
    ...{ store, location: { bucket: 'bucket', prefix: 'models' }, replicas: undefined, untried: true },
    ...{ agents: { agents: undefined, migrate: false, plain: [] }, loadTimeoutMs: 1000, lockTimeoutMs: 0 },
  };
}

test('an edited version is a conflict, and with replacePublished a release of another object', async () => {
  const bucket = emptyBucket();
  const repository = writeRepository(join(scratch.directory, 'edited'), ONE_MODEL);
  const first = await publish({ ...bucket, repository });
  writeRepository(repository, { 'a/1/weights.bin': 'edited' });
  await expect(publish({ ...bucket, repository })).rejects.toThrow(VersionConflictError);
  const second = await publish({ ...bucket, repository, replacePublished: true });
  expect(second.isNew).toBe(true);
  const newestFirst = await (await RetainedReleases.read(bucket)).readAll();
  const objects = newestFirst.map(({ id, models }) => [id, models['a']?.objects['a/1/weights.bin']?.bytes]);
  // The former content stays in its own object, for a rollback.
  expect(objects).toEqual([
    [second.release?.id, 'edited'.length],
    [first.release?.id, 'a'.length],
  ]);
  expect(await publish({ ...bucket, repository })).toMatchObject({ isNew: false });
});

const publishNothing = (bucket: ApplyOptions) =>
  change(
    (current) =>
      Promise.resolve({
        ...{ models: [], remove: Object.keys(current?.models ?? {}), archiveRemoved: false, prune: false },
        origin: 'test',
      }),
    bucket,
  );

test('the first release may have no models, and the next one without changes is none', async () => {
  const bucket = emptyBucket();
  const { isNew, release } = await publishNothing(bucket);
  expect({ isNew, models: release?.models }).toEqual({ isNew: true, models: {} });
  expect(await publishNothing(bucket)).toMatchObject({ isNew: false, release: { id: release?.id } });
});

test('a rollback without an id skips releases without models', async () => {
  const bucket = emptyBucket();
  const repository = writeRepository(join(scratch.directory, 'skipped'), ONE_MODEL);
  await publishNothing(bucket);
  const { release: first } = await publish({ ...bucket, repository });
  await expect(rollBack(undefined, bucket)).rejects.toThrow(`there is no release before ${first?.id}`);
  await publishNothing(bucket);
  await publish({ ...bucket, repository: writeRepository(repository, TWO_MODELS) });
  const { release } = await rollBack(undefined, bucket);
  expect(release?.restores).toBe(first?.id);
});

test('a rollback without an id skips a release without models that was restored', async () => {
  const bucket = emptyBucket();
  const repository = writeRepository(join(scratch.directory, 'restored'), ONE_MODEL);
  const { release: empty } = await publishNothing(bucket);
  const { release: first } = await publish({ ...bucket, repository });
  await rollBack(empty?.id, bucket);
  await publish({ ...bucket, repository: writeRepository(repository, TWO_MODELS) });
  const { release } = await rollBack(undefined, bucket);
  expect(release?.restores).toBe(first?.id);
});
