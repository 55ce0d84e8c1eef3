import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { tritonRepositoryUrl } from '../../src/release/location';
import type { TritonHttpClient } from '../../src/triton/http';
import { EnsembleRequests, holdUntil, twoSteps } from '../support/ensemble-requests';
import { publisher } from '../support/publish';
import { addingModel, writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';
import { until } from '../support/wait-for';

/**
 * Requests to an ensemble while a publish without agents changes the ensemble and both of its steps. Version 1 of the
 * steps adds 1 and 10, version 2 adds 2 and 20: 12 mixes two releases.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

let client: TritonHttpClient;
let bucket: ReturnType<typeof publisher>;

beforeAll(async () => {
  const location = { bucket: 'ensembles', prefix: 'models' };
  const { endpoint } = await testS3(scratch);
  const store = await openBucket(scratch, endpoint, location.bucket);
  await ensurePlaceholder(store, location);
  const triton = await testTriton(scratch, tritonRepositoryUrl(location, endpoint));
  client = triton.client;
  bucket = publisher(store, location, '', () => [triton.httpUrl]);
}, 300_000);

let folders = 0;

interface Publication {
  name: string;
  /** In version_policy of the steps. */
  versions: number[];
  /** `model_version` of each step in the ensemble. */
  pin: number;
  /** A file that delays the load of version 2 of the second step. */
  gate: string;
}

function write({ name, versions, pin, gate }: Publication): string {
  const [aa, bb] = [`${name}-aa`, `${name}-bb`];
  const files = {
    ...addingModel(aa, Object.fromEntries(versions.map((version) => [version, version]))),
    ...addingModel(bb, Object.fromEntries(versions.map((version) => [version, 10 * version]))),
  };
  const second = files[`${bb}/2/model.py`];
  if (second !== undefined) files[`${bb}/2/model.py`] = `${holdUntil(gate)}${second}`;
  files[`${name}/config.pbtxt`] = [
    'platform: "ensemble"',
    'input { name: "x" data_type: TYPE_FP32 dims: -1 }',
    'output { name: "y" data_type: TYPE_FP32 dims: -1 }',
    twoSteps(aa, bb, pin),
  ].join('\n');
  files[`${name}/1/.keep`] = 'An ensemble has no file.\n';
  folders += 1;
  return writeRepository(join(scratch.directory, `repository-${folders}`), files);
}

const FAILED = 'failed';

test.each([
  {
    title: 'are of one release if steps serve both versions',
    name: 'both',
    versions: [1, 2],
    pins: [1, 2],
    during: 11,
  },
  { title: 'fail if steps give up the old version', name: 'new', versions: [2], pins: [1, 2], during: FAILED },
  { title: 'mix releases if it uses the newest version', name: 'newest', versions: [2], pins: [-1, -1], during: 12 },
])('answers of an ensemble $title', async ({ name, versions, pins: [before = 0, after = 0], during }) => {
  const gate = join(scratch.directory, name);
  const options = { noAsk: true, prune: true };
  await bucket.publish({ ...options, repository: write({ name, versions: [1], pin: before, gate }) });
  const load = new EnsembleRequests(client, name);
  await load.more();
  const publishing = bucket.publish({ ...options, repository: write({ name, versions, pin: after, gate }) });
  publishing.catch(() => undefined);
  await until('the first step is loaded', () => client.modelReady(`${name}-aa`, 2));
  await load.more();
  // The load of the second step waits.
  const last = load.answers.at(-1);
  expect(typeof last === 'string' ? FAILED : last).toBe(during);
  writeFileSync(gate, '');
  await publishing;
  const answers = await load.end();
  if (during === 11) expect(answers).toEqual([11, 22]);
});
