import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TritonHttpClient } from '../../src/triton/http';
import { ReleaseWriter, TestAgent, type TestModel, type WrittenRelease } from '../support/agent';
import { EnsembleRequests, holdUntil, twoSteps } from '../support/ensemble-requests';
import { answeringProgram } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

/**
 * Requests to an ensemble while an agent switches the ensemble and both of its steps. The first step adds 1 or 2, the
 * second 10 or 20, so 11 and 22 are answers of one release, and 12 and 21 are mixtures.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

let agent: TestAgent;
let client: TritonHttpClient;
let releases: ReleaseWriter;

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  const store = await openBucket(scratch, endpoint, 'ensembles');
  agent = await TestAgent.create(scratch, 'pod');
  releases = new ReleaseWriter(store);
  await agent.start(store);
  client = agent.triton.client;
}, 300_000);

const ON_CPU = 'instance_group { kind: KIND_CPU count: 1 }\n';
const TENSORS =
  'input { name: "x" data_type: TYPE_FP32 dims: -1 }\noutput { name: "y" data_type: TYPE_FP32 dims: -1 }\n';

interface Numbers {
  /** Number of the version folder of each step. */
  version: number;
  /** `model_version` of each step in the ensemble. */
  pin: number;
}

/**
 * @param by 1 for the old release, 2 for the new one
 * @param gates files that delay the loads of the steps
 */
function ensemble(
  by: number,
  { version, pin }: Numbers,
  gates?: { aa: string; bb: string },
): Record<string, TestModel> {
  const step = (name: 'aa' | 'bb', amount: number): TestModel => {
    const prelude = gates === undefined ? '' : holdUntil(gates[name]);
    return {
      served: [version],
      files: {
        [`${version}/model.py`]: `${prelude}${answeringProgram('x', 'y', `x + np.float32(${amount})`)}`,
        // A file in its place, so that Python changes no time of the folder: a pod mounts it read-only.
        [`${version}/__pycache__`]: '',
      },
      config: `backend: "python" max_batch_size: 0\n${TENSORS}${ON_CPU}`,
    };
  };
  const both: TestModel = {
    served: [1],
    files: { '1/.keep': 'An ensemble has no file.\n' },
    composedOf: ['aa', 'bb'],
    config: `platform: "ensemble"\n${TENSORS}${twoSteps('aa', 'bb', pin)}`,
  };
  return { aa: step('aa', by), bb: step('bb', 10 * by), both };
}

const isServed = (release: WrittenRelease) => (): boolean => agent.state.release === release.id;

let folders = 0;

/** Serves the old release, then commits the new one, whose loads wait for the gates. */
async function begin(before: Numbers, after: Numbers) {
  const first = await releases.write(ensemble(1, before));
  await releases.commit(first);
  await until('the old release', isServed(first));
  folders += 1;
  const gates = { aa: join(scratch.directory, `aa-${folders}`), bb: join(scratch.directory, `bb-${folders}`) };
  const second = await releases.write(ensemble(2, after, gates));
  const load = new EnsembleRequests(client, 'both', () => agent.state.ready);
  await load.more();
  await releases.commit(second);
  return { load, second, open: (gate: 'aa' | 'bb') => writeFileSync(gates[gate], '') };
}

test('no answer mixes releases if the ensemble names the versions of its steps, and the steps get new numbers', async () => {
  const { load, second, open } = await begin({ version: 1, pin: 1 }, { version: 2, pin: 2 });
  open('aa');
  await until('the first step serves both versions', () => client.modelReady('aa', 2));
  await load.more();
  expect(agent.state.ready).toBe(true);
  open('bb');
  await until('the new release', isServed(second));
  expect(await load.end()).toEqual([11, 22]);
});

test('answers mix releases while steps load if the ensemble uses the newest version of its steps', async () => {
  const { load, second, open } = await begin({ version: 3, pin: -1 }, { version: 4, pin: -1 });
  open('aa');
  await until('an answer of the new first step and the old second step', () => load.answers.includes(12));
  expect(agent.state.ready).toBe(true);
  open('bb');
  await until('the new release', isServed(second));
  expect(await load.end()).toEqual(expect.arrayContaining([11, 12, 22]));
});

test.each([
  { title: 'the newest version of', pin: -1 },
  { title: 'a version of', pin: 5 },
])(
  'a pod is not Ready while steps change under the same number, and the ensemble uses $title them',
  async ({ pin }) => {
    const { load, second, open } = await begin({ version: 5, pin }, { version: 5, pin });
    await until('the pod is not Ready, and has no request', () => !agent.state.ready && load.inFlight === 0);
    open('aa');
    open('bb');
    await until('the new release', isServed(second));
    expect(await load.end()).toEqual([11, 22]);
  },
);
