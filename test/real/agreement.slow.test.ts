import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { formatProblem } from '../../src/core/errors';
import { configText, readRepository } from '../../src/model';
import { forEachLimited } from '../../src/core/concurrency';
import { TritonError } from '../../src/triton/client';
import type { TritonHttpClient } from '../../src/triton/http';
import { PARTS, randomEnsemble, randomModel, randomWarmup, type RandomModel, randoms } from '../support/random-models';
import { Scratch } from '../support/temp-dir';
import { testTriton, type TestTriton } from '../support/triton';
import { patience, repetitions, SOAK_SEED } from '../support/soak';

/** A server that does not answer within this time hangs. An empty model loads in a millisecond. */
const LOAD_TIMEOUT_MS = 20_000;
/** Parallel, because a process of the python backend is idle during most of its start. */
const LOADS_AT_A_TIME = 4;

jest.setTimeout(patience(1, 60_000));

const scratch = new Scratch();
afterAll(() => scratch.clean());

/**
 * Problems that we report although this server loads the model, with reasons. A model that the server loads although we
 * report another problem shows that we are too strict.
 */
const STRICTER: [reason: string, problem: RegExp][] = [
  [
    'requests address tensors by name: the second of two is never reached',
    /^(in|out)put\[\d+\]\.name: is also the name of/,
  ],
  [
    'without a batch axis it does nothing: most likely max_batch_size was forgotten',
    /^dynamic_batching: has no effect/,
  ],
  [
    'the server leaves out a version that is not there, and nothing of the release is served',
    /^version_policy\.specific\.versions\[\d+\]: has no version folder/,
  ],
  ['a negative count becomes 1, silently', /^instance_group\[\d+\]\.count: must not be negative/],
  ['a thousand instances take the server seconds, more of them minutes', /^instance_group\[\d+\]\.count: exceeds/],
  [
    'the tensor is written in a shape that its reader refuses when a request comes',
    /^(ensemble_scheduling\.step\[\d+\]\.input_map|output\[\d+\]).* from (in|out)put ".*, but .* for /,
  ],
  ['the server gives the model what it did not ask for', /^model_warmup\[\d+\]\.inputs\.\w+: is not an input/],
  ['the server skips a warm-up of batch size 0', /^model_warmup\[\d+\]\.batch_size: is 0/],
];

/** Problems that crash this server with all its models, or block it for minutes. Such models are not loaded. */
const DEADLY: RegExp[] = [
  /^sequence_batching\.state\[\d+\]\.(initial_state|input_name)/,
  /^(sequence_batching\.oldest\.max_candidate_sequences|max_batch_size): allows too many/,
  /^instance_group\[\d+\]\.count: exceeds/,
  /^model_repository_agents: lists no agent/,
  /^model_warmup\[\d+\]\.(inputs\..*\.dims: is too large|count: repeats)/,
  /^model_warmup\[\d+\]\.batch_size: is more than/,
];

/** Reasons of refusals that we leave to the server. It gives the last one only in its log. */
const LEFT_TO_TRITON =
  /batch (in|out)put|(source input|target output) name|NHWC\/NCHW require 3 dims|TensorRT|different decoupled models|failed to poll/;

interface Verdicts {
  bothTake: number;
  bothRefuse: number;
  notAsked: number;
  stricter: Map<string, number>;
  disagreements: string[];
}

/** The server's result for a model. */
interface Answer {
  /** Why the server did not load the model. */
  refusal?: string;
  /** The versions that the server served. */
  versions: number[];
}

const isGone = (error: unknown): boolean =>
  error instanceof TritonError && ['unreachable', 'timeout'].includes(error.status);

/** @throws TritonError if the server does not answer */
async function loadOnce(client: TritonHttpClient, model: string, versions: readonly number[]): Promise<Answer> {
  try {
    await client.loadModel(model, { timeoutMs: LOAD_TIMEOUT_MS });
  } catch (error) {
    if (isGone(error)) throw error;
    return { refusal: (error as Error).message, versions: [] };
  }
  const served: number[] = [];
  for (const version of versions) if (await client.modelReady(model, version)) served.push(version);
  await client.unloadModel(model);
  return { versions: served };
}

/** Compares our verdict on each model with the server's. The server gets accepted models as we would publish them. */
async function compare(name: string, models: ReadonlyMap<string, RandomModel>, program?: string): Promise<Verdicts> {
  const [source, served] = [join(scratch.directory, name, 'source'), join(scratch.directory, name, 'served')];
  for (const [model, { config, versions }] of models) {
    for (const folder of [source, served]) {
      write(join(folder, model, 'config.pbtxt'), configText(config));
      for (const version of versions) write(join(folder, model, String(version), 'model.py'), program ?? 'x');
    }
  }
  const repository = await readRepository(source);
  const problems = new Map<string, string[]>();
  for (const { file, ...problem } of repository.problems) {
    const model = file.slice(source.length + 1).split('/')[0] ?? '';
    problems.set(model, [...(problems.get(model) ?? []), formatProblem({ file: '', ...problem }).slice(2)]);
  }
  const accepted = repository.models.filter((model) => !problems.has(model.name));
  for (const model of accepted) write(join(served, model.name, 'config.pbtxt'), model.configText);

  const start = (folder: string): Promise<TestTriton> =>
    testTriton(scratch, served, { load: [], name: `${name}/${folder}`, hasEmptyBackend: true });
  const verdicts: Verdicts = { bothTake: 0, bothRefuse: 0, notAsked: 0, stricter: new Map(), disagreements: [] };
  const disagree = (model: string, what: string): void => {
    const text = readFileSync(join(served, model, 'config.pbtxt'), 'utf8').replace(/\s+/g, ' ');
    verdicts.disagreements.push(`${model}: ${what}\n    ${text}`);
  };
  const judge = (model: string, { refusal, versions }: Answer): void => {
    const ours = problems.get(model);
    if (refusal !== undefined) {
      if (ours === undefined && !LEFT_TO_TRITON.test(refusal))
        disagree(model, `we accept, the server refuses: ${refusal}`);
      else verdicts.bothRefuse++;
      return;
    }
    if (ours === undefined) {
      const expected = accepted.find((one) => one.name === model)?.served;
      if (versions.join() !== expected?.join()) disagree(model, `serves ${versions.join()}, not ${expected?.join()}`);
      else verdicts.bothTake++;
      return;
    }
    const reasons = ours.map((problem) => STRICTER.find(([, pattern]) => pattern.test(problem))?.[0]);
    for (const reason of reasons) {
      if (reason === undefined) disagree(model, `we refuse, the server accepts: ${ours.join('; ')}`);
      else verdicts.stricter.set(reason, (verdicts.stricter.get(reason) ?? 0) + 1);
    }
  };
  const judged = new Set<string>();
  /** @returns why the server no longer answers, or undefined */
  const ask = async ({ client }: TestTriton, model: string): Promise<string | undefined> => {
    try {
      const answer = await loadOnce(client, model, models.get(model)?.versions ?? []);
      if (!judged.has(model)) judge(model, answer);
      judged.add(model);
      return undefined;
    } catch (error) {
      if (isGone(error)) return (error as Error).message;
      throw error;
    }
  };

  const isDeadly = (problem: string): boolean => DEADLY.some((one) => one.test(problem));
  const asked = [...models.keys()].filter((model) => problems.get(model)?.some(isDeadly) !== true);
  verdicts.notAsked = models.size - asked.length;
  const server = await start('triton');
  const unanswered: string[] = [];
  await forEachLimited(asked, LOADS_AT_A_TIME, async (model) => {
    if (unanswered.length > 0 || (await ask(server, model)) !== undefined) unanswered.push(model);
  });
  const isLive = unanswered.length === 0 && (await server.client.live().catch(() => false));
  await server.stop();
  if (isLive) return verdicts;
  // This server sometimes crashes when the load of any model fails (docs/operations.md). If a model caused the
  // crash, the model will crash the server again, and sequential loads show which one.
  const again = await start('triton-again');
  for (const model of unanswered.length === 0 ? asked : unanswered) {
    const why = await ask(again, model);
    if (why === undefined) continue;
    throw new Error(`the server does not survive ${model}, ${problems.get(model)?.join('; ') ?? 'accepted'}: ${why}`);
  }
  expect(await again.client.live()).toBe(true);
  await again.stop();
  return verdicts;
}

function write(file: string, content: string | Buffer): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}

const RESPONDS = `import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]
`;

test('validate and Triton accept the same random models and ensembles, apart from listed differences', async () => {
  for (let round = 0; round < repetitions(1); round++) {
    const seed = SOAK_SEED + round;
    const models = new Map<string, RandomModel>(PARTS.map((config) => [config.name, { config, versions: [1] }]));
    for (const [index, random] of randoms(400, seed).entries()) {
      models.set(`m${index}`, randomModel(`m${index}`, random));
      models.set(`e${index}`, randomEnsemble(`e${index}`, PARTS, random));
    }
    const verdicts = await compare(`random-${round}`, models);
    expect({ seed, disagreements: verdicts.disagreements }).toEqual({ seed, disagreements: [] });
    // If all models were valid, or all were broken, they would test nothing.
    expect(verdicts.bothTake).toBeGreaterThan(200);
    expect(verdicts.bothRefuse).toBeGreaterThan(200);
  }
});

test('validate and Triton accept the same random warm-ups of the python backend', async () => {
  const models = new Map<string, RandomModel>();
  for (const [index, random] of randoms(repetitions(16), SOAK_SEED).entries())
    models.set(`w${index}`, randomWarmup(`w${index}`, random));
  const verdicts = await compare('warmup', models, RESPONDS);
  expect({ seed: SOAK_SEED, disagreements: verdicts.disagreements }).toEqual({ seed: SOAK_SEED, disagreements: [] });
  expect(verdicts.bothTake).toBeGreaterThan(2);
  expect(verdicts.bothRefuse).toBeGreaterThan(2);
});
