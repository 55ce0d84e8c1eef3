import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PART_BYTES, type S3Store } from '../../src/s3/store';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { TestRepository } from '../support/test-repository';
import { testVersitygw } from '../support/versitygw';
import { onSmallDisk, whyNoSmallDisk } from '../support/small-disk';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const PIECE_BYTES = 4 * 1024 ** 2;
/** Space for two copies of a model, which the server needs while it joins parts. */
const DISK_BYTES = 20 * PIECE_BYTES;

const directory = join(scratch.directory, 'disk');
mkdirSync(directory);

describeUnless(whyNoSmallDisk(directory) ?? whyNoGo(['versitygw']), 'a server whose disk is full', () => {
  const repository = join(scratch.directory, 'repository');
  let endpoint: string;
  let store: S3Store;
  /** Another bucket on the disk, which keeps no versions. */
  let ballast: S3Store;

  beforeAll(async () => {
    const server = await testVersitygw(scratch, { directory, through: onSmallDisk(directory, DISK_BYTES) });
    ({ endpoint } = server);
    store = await openBucket(scratch, endpoint, 'full-disk');
    ballast = await openBucket(scratch, endpoint, 'ballast');
  });

  const serves = (...versions: number[]): string =>
    `backend: "anything"\nversion_policy { specific { versions: [${versions.join(', ')}] } }\n`;
  const publish = (place: TestRepository) => {
    const flags = ['--repo', repository, '--untried', ...place.flags(endpoint)];
    return runCommandLine('sync-models', flags, S3_ENVIRONMENT);
  };

  /** Leaves space for one piece but not for two. */
  async function fillTheDisk(): Promise<void> {
    const piece = randomBytes(PIECE_BYTES);
    for (let n = 0; ; n += 1) {
      try {
        await ballast.putBytes(String(n), piece);
      } catch (error) {
        expect(error).toMatchObject({ status: 507 });
        return ballast.delete([{ key: String(n - 1) }]);
      }
    }
  }

  const makeRoom = async (): Promise<void> => ballast.delete(await ballast.list(''));

  test.each([
    ['one request', PART_BYTES],
    ['parts', 3 * PART_BYTES],
  ])(
    'publish reports a full disk during an upload in %s, changes nothing, and succeeds once space is free',
    async (name, bytes) => {
      const place = new TestRepository(store, `${name.replace(' ', '-')}/models`);
      rmSync(repository, { recursive: true, force: true });
      writeRepository(repository, { 'a/config.pbtxt': serves(1), 'a/1/weights.bin': 'a' });
      await place.publish(repository);
      const [before, head] = [await place.snapshot(), await place.head()];
      await fillTheDisk();

      writeRepository(repository, { 'a/config.pbtxt': serves(1, 2), 'a/2/weights.bin': '' });
      writeFileSync(join(repository, 'a', '2', 'weights.bin'), randomBytes(bytes));
      const { code, stderr } = await publish(place);
      expect(stderr).toMatch(
        /\nerror: a\/2\/weights\.bin: cannot write .*\(HTTP 507\).*\n {2}-> .*no space left: free some/,
      );
      expect(stderr.match(/^error: /gm)).toHaveLength(1);
      expect(stderr).not.toMatch(/\n\s+at /);
      expect(code).toBe(1);
      expect(await place.snapshot()).toEqual(before);
      expect(await place.head()).toEqual(head);
      expect(await place.leftovers()).toEqual([]);

      await makeRoom();
      const again = await publish(place);
      expect(again.code === 0 ? '' : again.stderr).toBe('');
      expect(await place.changedByPublishing(repository)).toEqual([]);
      expect((await place.head())?.models['a']?.served).toEqual([1, 2]);
      expect((await store.get(`${place.prefix}/a/2/weights.bin`))?.body.byteLength).toBe(bytes);
      expect(await place.leftovers()).toEqual([]);
      await place.clear();
    },
  );
});
