import { rollOut, type RolloutOptions } from '../../../src/publish/apply/rollout';
import { fixedReplicas } from '../../../src/cluster/source';
import type { S3Store } from '../../../src/s3/store';
import { fakeTriton, type FakeTriton } from '../../support/fake-triton';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const EMPTY = { get: () => Promise.resolve(undefined) } as unknown as S3Store;

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}

function roll(triton: FakeTriton, ask: (model: string) => Promise<void>): Promise<unknown> {
  const models = ['a', 'b', 'c'].map((name) => ({ name, served: [], digest: '' }));
  const options: RolloutOptions = { loadTimeoutMs: 5000, ask: (_, __, { name }) => ask(name) };
  return rollOut(fixedReplicas([triton.url]), { models, removed: [] }, options);
}

test('rollOut asks a model while the next one loads, one model at a time', async () => {
  const isLoaded = new Map(['a', 'b', 'c'].map((name) => [name, deferred()]));
  const triton = await fakeTriton(scratch, EMPTY, (model) => {
    isLoaded.get(model)?.resolve();
    return 'ok';
  });
  const events: string[] = [];
  await roll(triton, async (model) => {
    events.push(`ask ${model}`);
    // The answer to a comes when b loads: a rollout that waited for it would never load b.
    await isLoaded.get(model === 'a' ? 'b' : model)?.promise;
    events.push(`answer ${model}`);
  });
  expect(events).toEqual(['ask a', 'answer a', 'ask b', 'answer b', 'ask c', 'answer c']);
});

test('rollOut returns the fields that --json prints', async () => {
  const triton = await fakeTriton(scratch, EMPTY);
  expect(await roll(triton, () => Promise.resolve())).toEqual({ settled: [triton.url], starting: [] });
});

test.each([
  { wrong: 'a', loads: ['a', 'b'] },
  { wrong: 'c', loads: ['a', 'b', 'c'] },
])('rollOut ends with the wrong answer of $wrong, after the load in progress', async ({ wrong, loads }) => {
  const triton = await fakeTriton(scratch, EMPTY);
  const ended = roll(triton, (model) => (model === wrong ? Promise.reject(new Error('wrong')) : Promise.resolve()));
  await expect(ended).rejects.toThrow('wrong');
  expect(triton.loads).toEqual(loads);
});
