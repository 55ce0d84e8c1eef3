import { LockLostError } from '../../../src/publish/lock';
import { rollOut, type RolloutOptions, type ServedModel } from '../../../src/publish/apply/rollout';
import { fixedReplicas } from '../../../src/cluster/source';
import type { S3Store } from '../../../src/s3/store';
import { fakeTriton, type FakeTriton, type Loading } from '../../support/fake-triton';
import { MemoryStore } from '../../support/memory-store';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const EMPTY = { get: () => Promise.resolve(undefined) } as unknown as S3Store;

function roll(triton: FakeTriton, ask: (model: string) => Promise<void>): Promise<unknown> {
  const models = ['a', 'b', 'c'].map((name) => ({ name, served: [], digest: '' }));
  const options: RolloutOptions = { loadTimeoutMs: 5000, ask: (_, __, { name }) => ask(name) };
  return rollOut(fixedReplicas([{ url: triton.url }]), { models, removed: [] }, options);
}

test('rollOut asks the models after it loaded all of them, because one may call another', async () => {
  const triton = await fakeTriton(scratch, EMPTY);
  const events: string[] = [];
  await roll(triton, (model) => {
    events.push(`ask ${model} with ${triton.loads.join()}`);
    return Promise.resolve();
  });
  expect(events).toEqual(['ask a with a,b,c', 'ask b with a,b,c', 'ask c with a,b,c']);
});

test.each([
  { held: 0, loads: [], unloads: [] },
  { held: 1, loads: ['a'], unloads: [] },
  { held: 2, loads: ['a', 'b'], unloads: [] },
  { held: 3, loads: ['a', 'b'], unloads: ['y'] },
  { held: 4, loads: ['a', 'b'], unloads: ['y', 'z'] },
])('rollOut ends before the first load or unload without the lock, after $held of them', async ({ held, ...calls }) => {
  const triton = await fakeTriton(scratch, EMPTY);
  const [a, b, y, z] = ['a', 'b', 'y', 'z'].map((name) => ({ name, served: [], digest: '' })) as ServedModel[];
  for (const name of ['y', 'z']) triton.loaded.set(name, { digest: undefined, versions: ['1'] });
  let checks = 0;
  const requireHeld = (): void => {
    if ((checks += 1) > held) throw new LockLostError('lost');
  };
  const target = { models: [a, b] as ServedModel[], removed: [y, z] as ServedModel[] };
  const rolling = rollOut(fixedReplicas([{ url: triton.url }]), target, { loadTimeoutMs: 5000, lock: { requireHeld } });
  const outcome: unknown = await rolling.catch((error: unknown) => error);
  expect(outcome instanceof LockLostError).toBe(held < 4);
  expect({ loads: triton.loads, unloads: triton.unloads }).toEqual(calls);
});

test('rollOut returns the fields that --json prints', async () => {
  const triton = await fakeTriton(scratch, EMPTY);
  expect(await roll(triton, () => Promise.resolve())).toEqual({ settled: [triton.url], starting: [] });
});

test.each([
  { wrong: 'a', asked: ['a'] },
  { wrong: 'c', asked: ['a', 'b', 'c'] },
])('rollOut ends with the wrong answer of $wrong', async ({ wrong, asked }) => {
  const triton = await fakeTriton(scratch, EMPTY);
  const names: string[] = [];
  const ended = roll(triton, (model) => {
    names.push(model);
    return model === wrong ? Promise.reject(new Error('wrong')) : Promise.resolve();
  });
  await expect(ended).rejects.toThrow('wrong');
  expect(names).toEqual(asked);
});

test.each<{ how: Loading; outcome: object }>([
  {
    how: 'first version unavailable',
    outcome: { message: expect.stringMatching(/: a version 1 is UNAVAILABLE$/) as string },
  },
  { how: 'absent', outcome: { message: expect.stringMatching(/: a version 1 is absent$/) as string } },
  { how: 'ready later', outcome: { starting: [] } },
])('rollOut waits until every version is READY after the answer to a load: $how', async ({ how, outcome }) => {
  const bucket = new MemoryStore();
  await bucket.putBytes('models/a/config.pbtxt', 'version_policy { specific { versions: [1, 2] } }');
  const triton = await fakeTriton(scratch, bucket.store, () => how);
  const target = { models: [{ name: 'a', served: [1, 2], digest: '' }], removed: [] };
  const rolled: unknown = await rollOut(fixedReplicas([{ url: triton.url }]), target, { loadTimeoutMs: 60_000 }).catch(
    (error: unknown) => error,
  );
  expect(rolled).toMatchObject(outcome);
});
