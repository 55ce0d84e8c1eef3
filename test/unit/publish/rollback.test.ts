import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { headKey, releaseKey } from '../../../src/release/location';
import { newRelease, writeHead } from '../../../src/publish/release/release';
import { rollBack } from '../../../src/publish/rollback';
import { MemoryStore } from '../../support/memory-store';
import { publisher, TWO_MODELS } from '../../support/publish';
import { writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'bucket', prefix: 'models' };

test('rollBack names the missing manifest if the current release restored one that no longer exists', async () => {
  const bucket = new MemoryStore();
  const { store } = bucket;
  const first = newRelease({ previous: undefined, origin: 'test', models: {} });
  const second = newRelease({ previous: first.id, origin: 'test', restores: first.id, models: {} });
  await writeHead(store, LOCATION, first, undefined);
  bucket.objects.delete(headKey(LOCATION));
  await writeHead(store, LOCATION, second, undefined);
  bucket.objects.delete(releaseKey(LOCATION, first.id));
  const options = { store, location: LOCATION, replicas: undefined, loadTimeoutMs: 1, lockTimeoutMs: 1, dryRun: true };
  await expect(rollBack(undefined, options)).rejects.toMatchObject({
    name: 'UserError',
    message: `cannot determine the release before ${second.id}: it restored ${first.id}, and s3://bucket/${releaseKey(LOCATION, first.id)} is missing`,
    hint: 'choose the release yourself: npm run rollback -- ID; "npm run releases" lists the ids',
  });
});

test('rollBack gives the command that rolls back the models that still have their files', async () => {
  const repository = writeRepository(join(scratch.directory, 'repository'), TWO_MODELS);
  const bucket = publisher(new MemoryStore().store, LOCATION, repository);
  const { release } = await bucket.publish();
  rmSync(join(repository, 'b'), { recursive: true });
  await bucket.publish({ prune: true });
  await expect(rollBack(undefined, bucket.options())).rejects.toMatchObject({
    message: `cannot restore release ${release?.id}: --prune deleted b 1 (b/1/weights.bin)`,
    hint: expect.stringMatching(
      `or roll back the other models: npm run rollback -- ${release?.id} --models a$`,
    ) as string,
  });
});
