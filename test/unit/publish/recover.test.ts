import { fixedReplicas } from '../../../src/cluster/source';
import { recover } from '../../../src/publish/apply/recover';
import { NO_INTENT } from '../../../src/publish/lock';
import { fakeTriton } from '../../support/fake-triton';
import { MemoryStore } from '../../support/memory-store';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'bucket', prefix: 'models' };

test.each<{ title: string; digests: Record<string, string>; unloads: string[] }>([
  { title: 'unloads a new model of the killed publisher', digests: { c: 'd' }, unloads: ['c'] },
  { title: 'keeps a model of another source under the same name', digests: { c: 'other' }, unloads: [] },
  { title: 'keeps a model whose digest the lock does not have', digests: {}, unloads: [] },
])('recover $title', async ({ digests, unloads }) => {
  const { store } = new MemoryStore();
  const triton = await fakeTriton(scratch, store);
  triton.loaded.set('c', { digest: 'd', versions: ['1'] });
  const lock = { etag: undefined, heldBy: undefined, unfinished: { ...NO_INTENT, switching: ['c'], digests } };
  const seen = { lock, head: undefined, objects: new Map() };
  const replicas = fixedReplicas([triton.url]);
  expect(await recover(seen, { store, location: LOCATION, replicas, loadTimeoutMs: 1000, lockTimeoutMs: 1 })).toBe(
    true,
  );
  expect(triton.unloads).toEqual(unloads);
});
