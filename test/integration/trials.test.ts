import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { publish as publishFolder, type PublishOptions } from '../../src/publish/publish';
import type { S3Store } from '../../src/s3/store';
import { filesPrefix, formatLocation, releasesPrefix } from '../../src/release/location';
import { LOCATION, TestAgent } from '../support/agent';
import { addingModel, askOne, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const repository = join(scratch.directory, 'repository');
let endpoint: string;
let store: S3Store;
let pods: TestAgent[];

beforeAll(async () => {
  ({ endpoint } = await testS3(scratch));
  store = await openBucket(scratch, endpoint, 'trials');
  pods = await Promise.all(['pod-a', 'pod-b'].map((name) => TestAgent.create(scratch, name)));
  for (const pod of pods) await pod.start(store);
}, 300_000);

/** A folder with one model of the empty backend. */
function write(versions: Record<number, string>): void {
  rmSync(repository, { recursive: true, force: true });
  const tensor = (name: string): string => `${name} [{ name: "${name}" data_type: TYPE_FP32 dims: [1] }]`;
  writeRepository(repository, {
    'a/config.pbtxt': `backend: "empty"\n${tensor('input')}\n${tensor('output')}\ninstance_group [{ kind: KIND_CPU }]\nversion_policy { all {} }\n`,
    'a/labels.txt': 'x\n',
    ...Object.fromEntries(Object.entries(versions).map(([version, text]) => [`a/${version}/weights`, text])),
  });
}

async function publish(options: Partial<PublishOptions> = {}): Promise<{ id: string; replicas: string[] }> {
  const { release, replicas } = await publishFolder({
    repository,
    store,
    location: LOCATION,
    agents: {
      describe: () => 'test',
      list: () => Promise.resolve(pods.map(({ directory, url }) => ({ name: directory.slice(-5), url, uid: url }))),
    },
    // The empty backend answers no requests.
    noAsk: true,
    loadTimeoutMs: 60_000,
    waitMs: 60_000,
    ...options,
  });
  return { id: release?.id ?? '', replicas: replicas ?? [] };
}

const released = (): (string | null)[] => pods.map(({ state }) => state.release);

test('if two publishers try a release at the same time, one waits for the other', async () => {
  write({ 1: 'A' });
  await publish();
  write({ 1: 'A', 4: 'D' });
  const waits: string[] = [];
  const onStage = (text: string): unknown => text.startsWith('wait for another publisher') && waits.push(text);
  const [one, other] = await Promise.all([publish({ onStage }), publish({ onStage })]);
  expect(waits[0]).toMatch(/tries another release|head.json is at generation|another publisher made/);
  // What it was to publish is published.
  expect(other).toEqual(one);
  expect(released()).toEqual([one.id, one.id]);
});

test('a publisher that waits for another one writes no manifest', async () => {
  write({ 1: 'A', 5: 'E' });
  const manifests = async (): Promise<number> => (await store.list(`${releasesPrefix(LOCATION)}/2`)).length;
  const before = await manifests();
  let second: Promise<unknown> | undefined;
  const onStage = (text: string): void => {
    if (!text.includes('serves the release')) return;
    second ??= publish({ waitMs: 0 }).catch((error: unknown) => error);
  };
  await publish({ onStage });
  expect(await second).toMatchObject({ message: expect.stringMatching(/tries another release on pod-/) as string });
  expect(await manifests()).toBe(before + 1);
});

test('a Triton without an agent serves the bucket after a publish, a rollback and a prune', async () => {
  const plain = { bucket: 'trials', prefix: 'plain' };
  const run = (command: string, ...flags: string[]): Promise<Finished> => {
    const where = ['--bucket', formatLocation(plain), '--endpoint-url', endpoint];
    return runCommandLine(command, [...where, ...flags], S3_ENVIRONMENT);
  };
  /** Publishes with the command. */
  const sync = async (files: Record<string, string>): Promise<void> => {
    rmSync(repository, { recursive: true, force: true });
    writeRepository(repository, files);
    expect(await run('sync-models', '--repo', repository, '--untried', '--prune')).toMatchObject({ code: 0 });
  };
  await sync(addingModel('adds', { 1: 10 }));
  let triton = await testTriton(scratch, formatLocation(plain).replace('s3://', `s3://${endpoint}/`), {
    name: 'plain',
  });
  /** Starts the server again, and asks both models. */
  const answers = async (): Promise<unknown[]> => {
    triton = await triton.startAgain();
    return Promise.all(['adds', 'more'].map((model) => askOne(triton.httpUrl, model)));
  };
  expect(await askOne(triton.httpUrl)).toBe(11);
  await sync({ ...addingModel('adds', { 2: 20 }), ...addingModel('more', { 1: 5 }) });
  expect(await answers()).toEqual([21, 6]);
  expect(await run('rollback', '--untried')).toMatchObject({ code: 0 });
  const before = [11, expect.stringContaining("unknown model: 'more'")];
  expect(await answers()).toEqual(before);
  // As of a publisher that was killed.
  const orphan = `${filesPrefix(plain)}x.0`;
  await store.putBytes(orphan, Buffer.from('orphan'));
  expect((await run('releases', '--prune', '--yes')).stdout).toContain(`Deleted: 1 object (6 B)\n  ${orphan}\n`);
  expect(await answers()).toEqual(before);
});
