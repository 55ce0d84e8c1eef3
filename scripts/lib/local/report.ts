import { pathToFileURL } from 'node:url';
import { formatDuration, formatTable } from '../format';
import { stepModels } from '../model';
import { formatLocation } from '../publish/location';
import { nextCommands } from './next-commands';
import type { Answer } from './requests';
import type { LocalSelection } from './selection';
import type { LocalStack } from './stack';
import type { TimedStep, Timings } from './timings';

/** The table that the start ends with: what is served, and why not the rest. */
export function printModels(stack: LocalStack, selection: LocalSelection): void {
  const rows = modelRows(stack, selection).map(({ model, version, platform, state, reason, loadMs, weights }) => [
    model,
    version,
    platform,
    state === NOT_SERVED || reason === '' ? state : `${state}: ${reason}`,
    loadMs === null ? '-' : formatDuration(loadMs),
    weights,
  ]);
  const table = formatTable(['model', 'version', 'platform', 'state', 'loaded in', 'weights'], rows);
  const notes = selection.notServed.map(({ model, reason }) => `${model.name} is not served here: ${reason}.`);
  process.stdout.write(`\n${[table, ...notes].join('\n')}\n\n`);
}

/** What each model answered. */
export function printAnswers(answers: readonly Answer[], timings: Timings): void {
  const rows = answers.map(({ model, protocol, milliseconds, result, error }) => [
    model,
    protocol,
    formatDuration(milliseconds),
    error === undefined ? result : `FAILED: ${error}`,
  ]);
  process.stdout.write(`${formatTable(['model', 'over', 'took', 'answer'], rows)}\n\n`);
  const steps = timings.steps.map(({ name, milliseconds }) => [name, formatDuration(milliseconds)]);
  process.stdout.write(
    `${formatTable(['step', 'took'], [...steps, ['all, with what ran side by side', formatDuration(timings.total)]])}\n\n`,
  );
}

/** The last words of the start: where everything is, and what to do with it. */
export function printEndpoints({ triton, s3, location, models }: LocalStack, repository: string): void {
  const rows = [
    ['Triton HTTP', triton.httpUrl],
    ['Triton gRPC', triton.grpcAddress],
    ['Triton metrics', triton.metricsUrl],
    ['S3', `${s3.endpoint}  ${formatLocation(location)}`],
    ['Triton log', triton.logFile],
  ];
  const next = nextCommands(
    models.map(({ name }) => name),
    repository,
  );
  const parts = [
    formatTable(['endpoint', 'address'], rows),
    'In another terminal:',
    next.map((command) => `  ${command}`).join('\n'),
    'Ctrl-C stops everything.',
  ];
  process.stdout.write(`${parts.join('\n\n')}\n`);
}

/** Where the page is, as something that a terminal lets one click. */
export function printPage(path: string): void {
  process.stdout.write(`The same with pictures: ${pathToFileURL(path).href}\n\n`);
}

/** The same as one object, for scripts. */
export function printJson(result: LocalResult, page: string): void {
  // Pictures are for the page.
  const words = (key: string, value: unknown): unknown => (key === 'exhibit' ? undefined : value);
  process.stdout.write(`${JSON.stringify({ ...result, page }, words, 2)}\n`);
}

/** All that there is to tell when every model was asked. */
export interface LocalResult {
  models: ModelRow[];
  notServed: { model: string; reason: string }[];
  answers: readonly Answer[];
  steps: readonly TimedStep[];
  /** From the start to the last answer. */
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
  };
}

/** One version of a model that is served, or a model that is not. */
export interface ModelRow {
  model: string;
  /** Empty where it is not served. */
  version: string;
  platform: string;
  /** As Triton calls it, or `not served here`. */
  state: string;
  /** Why it is in this state; empty where it is READY. */
  reason: string;
  loadMs: number | null;
  /** Where they come from; empty where that is not known. */
  weights: string;
  /** The models that an ensemble is made of, in their order. */
  composedOf: string[];
}

const NOT_SERVED = 'not served here';

export function localResult(
  stack: LocalStack,
  selection: LocalSelection,
  answers: readonly Answer[],
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
    },
  };
}

function modelRows(stack: LocalStack, selection: LocalSelection): ModelRow[] {
  const configured = new Map(selection.served.map((model) => [model.name, model]));
  const served = stack.versions.map(({ model, version, state, reason }): ModelRow => {
    const read = configured.get(model);
    return {
      model,
      version: String(version),
      platform: read?.platform ?? '',
      state,
      reason,
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
  return [...served, ...others].sort((a, b) => (a.model < b.model ? -1 : 1));
}
