import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TritonError } from '../../../src/triton/client';
import { ReleaseWriter, type TestModel, type WrittenRelease } from '../../support/agent';
import { RulePod } from '../../support/rule-pod';
import { Scratch } from '../../support/temp-dir';
import { MemoryBucket, MemoryStore } from '../../support/memory-store';
import { until } from '../../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const bucket = new MemoryBucket();
const { store } = new MemoryStore(bucket);
const releases = new ReleaseWriter(store);
const model = (text: string): TestModel => ({ served: [1], files: { '1/weights': text } });

let pod: RulePod;
const serves = (release: WrittenRelease) => (): boolean => pod.state.ready && pod.state.release === release.id;

async function commit(models: Record<string, TestModel>): Promise<WrittenRelease> {
  const release = await releases.write(models);
  await releases.commit(release);
  return release;
}

test('a pod keeps serving home if the current release, which it did not try, ends Triton', async () => {
  pod = await RulePod.start(scratch, 'pod', store, { bucket: 'bucket', prefix: 'models' });
  const first = await commit({ a: model('A') });
  await until('the first release', serves(first));
  const load = pod.triton.loadModel.bind(pod.triton);
  let tries = 0;
  pod.triton.loadModel = (name): Promise<void> => {
    if (name !== 'deadly') return load(name);
    tries += 1;
    return Promise.reject(new TritonError('connection reset', { status: 'unreachable' }));
  };
  await commit({ a: model('A'), deadly: model('D') });
  await until('the problem', () => tries > 0 && serves(first)());
  // Without growing pauses it would be tried every 50 ms.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  expect(tries).toBeLessThan(8);
  expect(pod.state.problem).toMatch(/Triton ended while it loaded deadly/);
  const fixed = await commit({ a: model('A2') });
  await until('the next release', serves(fixed));
});

test('a pod whose home is damaged on its disk follows the current release', async () => {
  const { home } = pod.state;
  const manifest = join(pod.directory, 'releases', `${home}.json`);
  expect(existsSync(manifest)).toBe(true);
  const bad = await releases.write({ a: model('A3'), b: model('wrong') });
  // A trial takes the pod away from home, whose manifest is lost meanwhile.
  await pod.agent.beginTrial({
    ...{ id: 'trial-12345', release: bad.id, manifestSha256: bad.manifestSha256, base: bad.base },
    ...{ secret: bad.secret, ttlSeconds: 60, by: 'test', stateTag: pod.state.stateTag, ask: false },
  });
  await until('the trial', () => pod.state.trial?.phase === 'served');
  rmSync(manifest);
  const next = await commit({ a: model('A4') });
  await until('the current release', serves(next));
});

test('a current release that cannot be noted on the disk does not count as read', async () => {
  const { release } = pod.state;
  // A folder in the place of the file that the agent writes.
  const blocked = join(pod.directory, 'notes.json.unfinished');
  mkdirSync(join(blocked, 'folder'), { recursive: true });
  const next = await commit({ a: model('A5') });
  const readAt = (): number => pod.agent.getCounts().headReadAt;
  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 500));
  await pause(); // For a request that began before the commit.
  const last = readAt();
  await pause();
  expect(readAt()).toBe(last);
  expect(pod.state.release).toBe(release);
  rmSync(blocked, { recursive: true });
  await until('the next release', serves(next));
  expect(readAt()).toBeGreaterThan(last);
});

test('files that a loss of power has damaged are downloaded again', async () => {
  const { release } = pod.state;
  const store = join(pod.directory, 'store');
  // The files of the release before are deleted after the switch.
  await until('only its files', () => readdirSync(store).length === 1);
  for (const content of readdirSync(store)) writeFileSync(join(store, content, '1', 'weights'), '');
  const { downloads } = pod.agent.getCounts();
  const before = downloads.bytes;
  await pod.triton.restart(300);
  await until('the release', () => pod.state.release === release && downloads.bytes > before);
  expect(await pod.triton.modelReady('a', 1)).toBe(true);
});
