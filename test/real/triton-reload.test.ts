import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';
import { testTriton, type TestTriton } from '../support/triton';

/**
 * Which versions Triton loads again from a local disk, as test/proof/Switch.tla assumes. If a new image of Triton fails here, the
 * specification has to change first.
 */

const scratch = new Scratch();
const [repository, store] = [join(scratch.directory, 'models'), join(scratch.directory, 'store')];
let triton: TestTriton;

beforeAll(async () => {
  mkdirSync(repository);
  triton = await testTriton(scratch, repository, { load: [], hasEmptyBackend: true });
});
afterAll(() => scratch.clean());

function write(path: string, content: string | Buffer): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

const tensor = 'data_type: TYPE_FP32 dims: [1]';

function writeConfig(model: string, versions: number[], instances = 1): void {
  const path = join(repository, model, 'config.pbtxt');
  write(
    `${path}.new`,
    `name: "${model}" backend: "empty" input [{ name: "x" ${tensor} }]
output [{ name: "y" ${tensor} label_filename: "labels.txt" }]
version_policy { specific { versions: [${versions.join(', ')}] } }
instance_group [{ kind: KIND_CPU count: ${instances} }]`,
  );
  renameSync(`${path}.new`, path);
}

/** Points a name in the model's folder to a file or folder of the store. */
function point(model: string, name: string, content: string): void {
  const path = join(repository, model, name);
  symlinkSync(join(store, content), `${path}.new`);
  renameSync(`${path}.new`, path);
}

/** Fills the store; a later content is newer. */
async function fill(...contents: string[]): Promise<void> {
  for (const content of contents) {
    if (content.endsWith('.txt')) write(join(store, content), content);
    else write(join(store, content, 'weights'), content);
    await later();
  }
}

/** The clock that stamps files moves in steps of some milliseconds. */
const later = (): Promise<void> => sleep(30);

interface Change {
  title: string;
  change: () => void;
  /** Versions that Triton loads again, and so replaces. */
  replaces: number[];
}

/** Versions of a model that Triton has replaced so far. */
function replaced(model: string): number[] {
  const log = readFileSync(triton.logFile, 'utf8');
  return [...log.matchAll(new RegExp(`successfully unloaded '${model}' version (\\d+)`, 'g'))].map(([, version]) =>
    Number(version),
  );
}

async function expectReplaced(model: string, changes: readonly Change[]): Promise<void> {
  let total: number[] = [];
  for (const { title, change, replaces } of changes) {
    await later();
    change();
    await triton.client.loadModel(model);
    total = [...total, ...replaces];
    // Triton unloads the old one after the new one is loaded.
    await until(
      `after "${title}" version ${replaces.join()} is replaced`,
      () => replaced(model).length >= total.length,
    );
    expect([title, ...replaced(model)]).toEqual([title, ...total]);
  }
  // One that should have stayed would be unloaded by now.
  await triton.client.unloadModel(model);
  await until('the model is unloaded', () => replaced(model).length > total.length);
  expect(replaced(model).slice(0, total.length)).toEqual(total);
}

test('files in the model folder', async () => {
  const weights = (version: number): string => join(repository, 'files', String(version), 'weights');
  const elsewhere = join(scratch.directory, 'elsewhere');
  write(join(repository, 'files/labels.txt'), 'x');
  await expectReplaced('files', [
    {
      title: 'the first version',
      change: () => {
        write(weights(1), 'A');
        writeConfig('files', [1]);
      },
      replaces: [],
    },
    { title: 'no change', change: () => undefined, replaces: [] },
    {
      title: 'a second version',
      change: () => {
        write(weights(2), 'B');
        writeConfig('files', [1, 2]);
      },
      replaces: [],
    },
    { title: 'two instances', change: () => writeConfig('files', [1, 2], 2), replaces: [] },
    {
      title: 'a hard link to version 1 elsewhere, which renews its change time',
      change: () => {
        linkSync(weights(1), elsewhere);
        writeConfig('files', [1, 2], 2);
      },
      replaces: [1],
    },
    {
      title: 'without this link',
      change: () => {
        rmSync(elsewhere);
        writeConfig('files', [1, 2], 2);
      },
      replaces: [1],
    },
    {
      title: 'a modification time of 1970, which renews the change time',
      change: () => {
        utimesSync(weights(1), 0, 0);
        writeConfig('files', [1, 2], 2);
      },
      replaces: [1],
    },
  ]);
});

test('symbolic links to folders that do not change', async () => {
  await fill('A', 'B', 'C', 'labels.txt');
  mkdirSync(join(repository, 'links'));
  point('links', 'labels.txt', 'labels.txt');
  const serve = (content: string, version: number, versions: number[]) => () => {
    point('links', String(version), content);
    writeConfig('links', versions);
  };
  await expectReplaced('links', [
    { title: 'B', change: serve('B', 1, [1]), replaces: [] },
    { title: 'A, which is older: the old weights stay', change: serve('A', 1, [1]), replaces: [] },
    {
      title: 'A, touched',
      change: () => {
        utimesSync(join(store, 'A'), new Date(), new Date());
        writeConfig('links', [1]);
      },
      replaces: [1],
    },
    { title: 'C as version 2, which is older than A', change: serve('C', 2, [1, 2]), replaces: [] },
  ]);
});

test('label files beside the versions', async () => {
  await fill('weights', 'old.txt', 'new.txt');
  mkdirSync(join(repository, 'labels'));
  point('labels', '1', 'weights');
  const label = (content: string) => () => {
    point('labels', 'labels.txt', content);
    writeConfig('labels', [1]);
  };
  await expectReplaced('labels', [
    { title: 'the newer one', change: label('new.txt'), replaces: [] },
    { title: 'the older one: the old labels stay', change: label('old.txt'), replaces: [] },
    {
      title: 'none: the old labels stay',
      change: () => {
        rmSync(join(repository, 'labels/labels.txt'));
        writeConfig('labels', [1]);
      },
      replaces: [],
    },
    {
      title: 'the older one, touched',
      change: () => {
        utimesSync(join(store, 'old.txt'), new Date(), new Date());
        label('old.txt')();
      },
      replaces: [1],
    },
  ]);
});
