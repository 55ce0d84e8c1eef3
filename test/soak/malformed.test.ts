import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { MALFORMED, writeMalformed } from '../support/malformed';
import { runCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { patience, repetitions, SeededRandom, SOAK_SEED } from '../support/soak';
import { TestRepository } from '../support/test-repository';
import { startScriptedProxy, type ScriptedProxy } from '../support/scripted-proxy';
import { testVersitygw } from '../support/versitygw';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const isRoot = process.getuid?.() === 0;
const CASES = MALFORMED.filter(({ notForRoot }) => !(isRoot && notForRoot));
const random = new SeededRandom(SOAK_SEED);
describeUnless(whyNoGo(['versitygw']), 'folders that are malformed', () => {
  let tap: ScriptedProxy;
  let place: TestRepository;

  beforeAll(async () => {
    tap = await startScriptedProxy((await testVersitygw(scratch)).endpoint);
    scratch.defer(() => tap.stop());
    place = new TestRepository(await openBucket(scratch, tap.endpoint, 'malformed'), 'models');
  });

  function getFolder({ files }: (typeof CASES)[number]): string {
    const folder = join(scratch.directory, 'repository');
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    writeMalformed(folder, files);
    return folder;
  }

  /** Write requests, which a publisher that rejects its folder must not send. */
  const writes = (): string[] =>
    tap.requests.filter(({ method }) => method !== 'GET' && method !== 'HEAD').map(({ method, path }) => method + path);

  test('publish uploads nothing of a malformed repository', async () => {
    const before = writes();
    const published: string[] = [];
    for (const one of CASES) {
      const error: unknown = await place.publish(getFolder(one)).then(
        () => undefined,
        (caught: unknown) => caught,
      );
      if (!(error instanceof UserError) || error.problems.length === 0) published.push(`${one.name}: ${String(error)}`);
    }
    expect(published).toEqual([]);
    expect(writes()).toEqual(before);
    expect(await place.store.list('')).toEqual([]);
    expect(CASES.length).toBeGreaterThanOrEqual(300);
  });

  test(
    'sync-models exits with 1 and reports the problem',
    async () => {
      for (let i = 0; i < repetitions(3); i += 1) {
        const one = random.pick(CASES);
        const flags = ['--repo', getFolder(one), ...place.flags(tap.endpoint)];
        const { code, stdout, stderr } = await runCommandLine('sync-models', flags, S3_ENVIRONMENT);
        expect({ name: one.name, code, stdout }).toEqual({ name: one.name, code: 1, stdout: '' });
        expect(stderr).toMatch(/\nerror: .* is not ready to be published; nothing was uploaded\n/);
        expect(stderr).not.toMatch(/\n\s+at /);
      }
      expect(await place.store.list('')).toEqual([]);
    },
    patience(3, 10_000),
  );
});
