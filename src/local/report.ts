import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { formatDuration, formatTable, shortened } from '../core/format';
import { stepModels } from '../model';
import { displayPath } from '../model/paths';
import { formatLocation } from '../release/location';
import { nextCommands } from './hints';
import { isZerosRefused, type SmokeTestResult } from './smoke-test';
import type { LocalSelection } from './selection';
import { describeState, type LocalStack } from './stack';
import type { TimedStep, Timings } from './timings';

/** Prints the served models after the start, and the reasons why others are not served. */
export function printModels(stack: LocalStack, selection: LocalSelection): void {
  const rows = modelRows(stack, selection).map(({ model, version, platform, state, reason, loadMs, weights }) => [
    model,
    version,
    platform,
    state === NOT_SERVED || reason === '' ? state : `${state}: ${shortened(firstLine(reason), LONGEST_REASON)}`,
    loadMs === null ? '-' : formatDuration(loadMs),
    weights,
  ]);
  const table = formatTable(['model', 'version', 'platform', 'state', 'loaded in', 'weights'], rows);
  const notes = [
    ...selection.notServed.map(({ model, reason }) => `${model.name} is not served here: ${reason}.`),
    ...stack.failed.map(({ name, details }) => `${name} FAILED: ${isServed(stack, name) ? PREVIOUS : ''}${details}`),
  ];
  process.stdout.write(`\n${[table, ...notes].join('\n')}\n\n`);
}

/** Width of a reason in the table. The full text is printed below. */
const LONGEST_REASON = 60;

const PREVIOUS = 'the previous version is served. ';

export const isServed = ({ versions }: Pick<LocalStack, 'versions'>, name: string): boolean =>
  versions.some(({ model, state }) => model === name && state === 'READY');

const firstLine = (text: string): string => text.split('\n')[0] ?? '';

export function printAnswers(answers: readonly SmokeTestResult[], timings: Timings): void {
  const rows = answers.map(({ model, protocol, milliseconds, result, error, isZeros }) => [
    model,
    protocol,
    formatDuration(milliseconds),
    error === undefined
      ? result
      : `${isZeros === true ? 'READY, request of zeros failed' : 'FAILED'}: ${firstLine(error)}`,
  ]);
  process.stdout.write(`${formatTable(['model', 'protocol', 'time', 'answer'], rows)}\n\n`);
  const refused = new Set(answers.filter((answer) => isZerosRefused(answer)).map(({ model }) => model));
  for (const model of refused) {
    process.stdout.write(
      `${model} rejected a request of zeros. Add a golden request that the model answers to its folder: golden/CASE.json for all versions, golden/VERSION/CASE.json for one version.\n\n`,
    );
  }
  const steps = timings.steps.map(({ name, milliseconds }) => [name, formatDuration(milliseconds)]);
  process.stdout.write(
    `${formatTable(['step', 'time'], [...steps, ['total (steps overlap)', formatDuration(timings.total)]])}\n\n`,
  );
}

/** The next step for models that are not served or answer wrongly. */
export function describeFailures(names: readonly string[], repository: string, isWatched: boolean): string {
  const folders = names.map((name) => displayPath(join(repository, name))).join(', ');
  const again = isWatched
    ? '"npm run local" loads them again when their files change.'
    : 'Then start "npm run local" again.';
  return `FAILED: ${names.join(', ')}. Fix ${folders}. ${again}`;
}

/** Prints the endpoints and the next commands, at the end of the start. */
export function printEndpoints({ triton, agent, s3, location, versions }: LocalStack, repository: string): void {
  const rows = [
    ['Triton HTTP', triton.httpUrl],
    ['Triton gRPC', triton.grpcAddress],
    ['Triton metrics', triton.metricsUrl],
    ['S3', `${s3.endpoint}  ${formatLocation(location)}`],
    ['Triton log', triton.logFile],
    ...(agent === undefined
      ? []
      : [
          ['Release agent', triton.agentUrl ?? ''],
          ['Agent metrics', agent.metricsUrl],
          ['Agent log', agent.logFile],
        ]),
  ];
  const ready = versions.filter(({ state }) => state === 'READY').map(({ model }) => model);
  const next = nextCommands(ready, repository);
  const parts = [
    formatTable(['endpoint', 'address'], rows),
    'Run in another terminal:',
    next.map((command) => `  ${command}`).join('\n'),
    'Ctrl-C stops everything.',
  ];
  process.stdout.write(`${parts.join('\n\n')}\n`);
}

/** Prints a link to the page that terminals make clickable. */
export function printPage(path: string): void {
  process.stdout.write(`Results with pictures: ${pathToFileURL(path).href}\n\n`);
}

/** Prints the result as one JSON object, for scripts. */
export function printJson(result: LocalResult, page: string): void {
  // Pictures and texts of the answers are only for the page.
  const answers = result.answers.map((answer) => ({ ...answer, display: undefined }));
  process.stdout.write(`${JSON.stringify({ ...result, answers, page }, null, 2)}\n`);
}

/** The result of a start after every model was asked. */
export interface LocalResult {
  models: ModelRow[];
  notServed: { model: string; reason: string }[];
  answers: readonly SmokeTestResult[];
  steps: readonly TimedStep[];
  /** From the start of the command to the last answer. */
  milliseconds: number;
  endpoints: {
    http: string;
    /** HOST:PORT. */
    grpc: string;
    metrics: string;
    s3: string;
    /** s3://BUCKET/PREFIX. */
    repository: string;
    tritonLog: string;
    /** The control API of the release agent, if there is one. */
    agent?: string | undefined;
    agentLog?: string | undefined;
  };
}

/** A served version of a model, or a model that is not served. */
export interface ModelRow {
  model: string;
  /** Empty if the model is not served. */
  version: string;
  platform: string;
  /** `READY`, `FAILED` or `not served here`. */
  state: string;
  /** Reason for the state; empty for READY. */
  reason: string;
  loadMs: number | null;
  /** Source of the weights; empty if unknown. */
  weights: string;
  /** The models that an ensemble consists of, in order. */
  composedOf: string[];
}

const NOT_SERVED = 'not served here';
const FAILED = 'FAILED';

export function localResult(
  stack: LocalStack,
  selection: LocalSelection,
  answers: readonly SmokeTestResult[],
  timings: Timings,
): LocalResult {
  const { triton, s3, location } = stack;
  return {
    models: modelRows(stack, selection),
    notServed: selection.notServed.map(({ model, reason }) => ({ model: model.name, reason })),
    answers,
    steps: timings.steps,
    milliseconds: timings.total,
    endpoints: {
      http: triton.httpUrl,
      grpc: triton.grpcAddress,
      metrics: triton.metricsUrl,
      s3: s3.endpoint,
      repository: formatLocation(location),
      tritonLog: triton.logFile,
      agent: triton.agentUrl,
      agentLog: stack.agent?.logFile,
    },
  };
}

function modelRows(stack: LocalStack, selection: LocalSelection): ModelRow[] {
  const configured = new Map(selection.served.map((model) => [model.name, model]));
  const served = stack.versions.map((one): ModelRow => {
    const { model, version, state } = one;
    const read = configured.get(model);
    const failure = stack.failed.find(({ name }) => name === model)?.reason;
    const unserved = state === 'READY' ? '' : describeState(one);
    return {
      model,
      version: String(version),
      platform: read?.platform ?? '',
      state: failure === undefined && state === 'READY' ? state : FAILED,
      reason: failure === undefined ? unserved : `${state === 'READY' ? PREVIOUS : ''}${failure}`,
      loadMs: stack.loadMs.get(model) ?? null,
      weights: stack.models.find(({ name }) => name === model)?.weights[String(version)] ?? '',
      composedOf: read === undefined ? [] : stepModels(read.config),
    };
  });
  const others = selection.notServed.map(({ model, reason }): ModelRow => ({
    model: model.name,
    version: '',
    platform: model.platform,
    state: NOT_SERVED,
    reason,
    loadMs: null,
    weights: '',
    composedOf: stepModels(model.config),
  }));
  const unversioned = stack.failed.filter(({ name }) => !stack.versions.some(({ model }) => model === name));
  const failed = unversioned.map(({ name, reason }): ModelRow => ({
    model: name,
    version: '',
    platform: configured.get(name)?.platform ?? '',
    state: FAILED,
    reason,
    loadMs: null,
    weights: '',
    composedOf: [],
  }));
  return [...served, ...others, ...failed].sort((a, b) => (a.model < b.model ? -1 : 1));
}
