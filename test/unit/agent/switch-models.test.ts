import { getLoads, hasClash, LoadRefusedError, ModelSwitcher, type SwitchFrom } from '../../../src/agent/switch-models';
import type { LoadNote } from '../../../src/agent/notes';
import type { Manifest, ManifestModel } from '../../../src/release/manifest';
import { TritonError } from '../../../src/triton/client';
import { until } from '../../support/wait-for';

/** `{ '1': 'A' }`: version 1 has the content A. */
function released(versions: Record<string, string>, composedOf: string[] = []): ManifestModel {
  return {
    served: Object.keys(versions).map(Number),
    composedOf,
    config: 'max_batch_size: 1\noutput {\n  name: "y"\n}\n',
    files: Object.entries(versions).map(([version, content]) => ({
      path: `${version}/weights`,
      key: 'key',
      versionId: 'id',
      bytes: 1,
      checksum: content,
    })),
  };
}

const release = (models: Record<string, ManifestModel>): Manifest => ({
  id: 'id',
  createdAt: '',
  origin: '',
  by: '',
  base: 0,
  trialKey: '',
  models,
  former: [],
});

/** `step 1+2`: versions 1 and 2 of step. */
const describeLoads = (to: Manifest, from: SwitchFrom): string[] =>
  getLoads(to, from).map(({ model, config }) => `${model} ${/\[(.*)\]/.exec(config)?.[1]?.replaceAll(', ', '+')}`);

const old = release({
  whole: released({ 1: 'e' }, ['step', 'other']),
  step: released({ 1: 'A' }),
  other: released({ 1: 'O' }),
  alone: released({ 1: 'X' }),
});
const next = release({ ...old.models, whole: released({ 2: 'e2' }, ['step', 'other']), step: released({ 2: 'B' }) });

test.each<{ title: string; from: SwitchFrom; loads: string[] }>([
  {
    title: 'from nothing: steps before their ensembles',
    from: { kind: 'unknown' },
    loads: ['other 1', 'step 2', 'alone 1', 'whole 2'],
  },
  {
    title: 'from a release: a step serves both versions until the ensemble is switched',
    from: { kind: 'release', release: old },
    loads: ['step 1+2', 'other 1', 'alone 1', 'whole 2', 'step 2'],
  },
  {
    title: 'after a failure: ensembles go back while their steps may still serve both',
    from: { kind: 'failed', release: next },
    loads: ['alone 1', 'whole 2', 'other 1', 'step 2'],
  },
])('loads $title', ({ from, loads }) => {
  expect(describeLoads(next, from)).toEqual(loads);
});

const withConfig = (config: string): ManifestModel => ({ ...(next.models['step'] as ManifestModel), config });

test.each<[string, boolean, Record<string, ManifestModel>]>([
  ['a new version number', false, next.models],
  ['the same content', false, old.models],
  ['another interface of a step', true, { ...next.models, step: withConfig('output {\n  name: "z"\n}\n') }],
  ['a new step that does not declare its interface', true, { ...next.models, step: withConfig('') }],
  ['a reused version number of a step', true, { ...old.models, step: released({ 1: 'B' }) }],
  ['a reused version number of another model', false, { ...old.models, alone: released({ 1: 'B' }) }],
])('clash: %s', (_, clash, models) => {
  expect(hasClash(release(models), old)).toBe(clash);
});

/** A server whose loads end when the test says so, and a switcher for it. `loaded`: models that it serves at first. */
function slowServer(loaded: Manifest) {
  const served = new Map(Object.entries(loaded.models).map(([name, { served: versions }]) => [name, versions]));
  const loading = new Map<string, (error?: Error) => void>();
  /** Of models that are being unloaded, or were. */
  const states = new Map<string, string>();
  const getState = (name: string): string => states.get(name) ?? 'READY';
  const loads = Object.fromEntries(
    [...served].map(([name, [version = 0]]) => [name, { sure: true, units: { [version]: '' }, config: '' }]),
  );
  const switcher = new ModelSwitcher({
    triton: {
      repositoryIndex: () =>
        Promise.resolve(
          [...served].flatMap(([name, versions]) =>
            versions.map((version) => ({ name, version: String(version), state: getState(name), reason: '' })),
          ),
        ),
      modelReady: (name: string) => Promise.resolve(getState(name) === 'READY'),
      loadModel: (name: string) =>
        new Promise<void>((resolve, reject) =>
          loading.set(name, (error) => {
            loading.delete(name);
            if (error !== undefined) return reject(error);
            served.set(name, [1, 2]);
            resolve();
          }),
        ),
      unloadModel: (name: string) => Promise.resolve(void states.set(name, 'UNLOADING')),
    },
    repository: {
      models: () => [],
      write: (_: string, folder: { config: string }, note?: LoadNote) => !(note?.sure && note.config === folder.config),
      clean: () => undefined,
    },
    notes: { notes: { loads }, save: () => undefined },
    loadTimeoutMs: 1000,
  } as unknown as ConstructorParameters<typeof ModelSwitcher>[0]);
  const end = async (name: string, error?: Error): Promise<void> => {
    await until(`${name} is being loaded`, () => loading.has(name));
    loading.get(name)?.(error);
  };
  /** Ends loads, of which only one runs at a time. */
  const endOneByOne = async (...names: string[]): Promise<void> => {
    for (const name of names) {
      await until(`${name} is being loaded`, () => loading.has(name));
      expect([...loading.keys()]).toEqual([name]);
      await end(name);
    }
  };
  return { switcher, loading, end, endOneByOne, loads, states };
}

test('a model that is being unloaded is not lost, however long its requests take', async () => {
  const alone = release({ alone: released({ 1: 'X' }) });
  const { switcher, states, loads } = slowServer(alone);
  expect(await switcher.findLost()).toEqual([]);
  const done = switcher.switch(release({}), { kind: 'release', release: alone });
  await until('it is being unloaded', () => states.get('alone') === 'UNLOADING');
  expect(await switcher.findLost()).toEqual([]);
  states.set('alone', 'UNAVAILABLE');
  await done;
  expect(loads).toEqual({});
});

test('an empty server loads several models at a time, and an ensemble after its steps', async () => {
  const { switcher, loading, end } = slowServer(release({}));
  const done = switcher.switch(next, { kind: 'failed', release: old });
  await until('three models are being loaded', () => loading.size === 3);
  expect([...loading.keys()].sort()).toEqual(['alone', 'other', 'step']);
  await end('alone');
  await end('other');
  expect([...loading.keys()]).toEqual(['step']);
  await end('step');
  await end('whole');
  await done;
});

test('a server that serves a release loads one model at a time', async () => {
  const { switcher, endOneByOne } = slowServer(old);
  const done = switcher.switch(next, { kind: 'release', release: old });
  await endOneByOne('step', 'other', 'alone', 'whole', 'step');
  await done;
});

const outOfMemory = new TritonError('CUDA out of memory', { status: 'invalid', answered: true });

test('models that Triton refuses beside others are loaded again, one at a time', async () => {
  const { switcher, end, endOneByOne } = slowServer(release({}));
  const done = switcher.switch(next, { kind: 'unknown' });
  await end('alone', outOfMemory);
  await end('other');
  await end('step', outOfMemory);
  await endOneByOne('step', 'alone', 'whole');
  await done;
});

test('a model that is refused twice fails the switch when no load runs', async () => {
  const { switcher, loading, end, loads } = slowServer(release({}));
  const done = switcher.switch(next, { kind: 'unknown' });
  const ended = expect(done).rejects.toThrow(LoadRefusedError);
  await end('alone', outOfMemory);
  await end('other');
  await end('step');
  await end('alone', outOfMemory);
  await ended;
  expect(loading.size).toBe(0);
  expect(
    Object.entries(loads)
      .flatMap(([name, { sure }]) => (sure ? [name] : []))
      .sort(),
  ).toEqual(['other', 'step']);
});

test('after Triton ended during several loads, the error names them, and the next switch loads one model at a time', async () => {
  const { switcher, loading, end, endOneByOne } = slowServer(release({}));
  const failed = expect(switcher.switch(next, { kind: 'unknown' })).rejects.toThrow(
    'Triton ended while it loaded other, step, alone, or does not answer',
  );
  const names = ['other', 'step', 'alone'];
  for (const name of names) await until(`${name} is being loaded`, () => loading.has(name));
  for (const name of names) await end(name, new TritonError('reset', { status: 'unreachable' }));
  await failed;
  const done = switcher.switch(next, { kind: 'unknown' });
  await endOneByOne('other', 'step', 'alone', 'whole');
  await done;
});
