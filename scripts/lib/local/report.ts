import { formatDuration, formatTable } from '../format';
import { formatLocation } from '../publish/location';
import type { Answer } from './requests';
import type { LocalSelection } from './selection';
import type { LocalStack } from './stack';
import type { Timings } from './timings';

/** The table that the start ends with: what is served, and why not the rest. */
export function printModels(stack: LocalStack, selection: LocalSelection): void {
  const rows = modelRows(stack, selection).map(({ model, version, platform, state, loadMs, weights }) => [
    model,
    version,
    platform,
    state,
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

export function printEndpoints({ triton, s3, location }: LocalStack): void {
  const rows = [
    ['Triton HTTP', triton.httpUrl],
    ['Triton gRPC', triton.grpcAddress],
    ['Triton metrics', triton.metricsUrl],
    ['S3', `${s3.endpoint}  ${formatLocation(location)}  (keys: scripts/lib/local/s3-server.ts)`],
    ['Triton log', triton.logFile],
  ];
  process.stdout.write(`${formatTable(['endpoint', 'address'], rows)}\n\nCtrl-C stops everything.\n`);
}

/** The same as one object, for scripts. */
export function localResult(
  stack: LocalStack,
  selection: LocalSelection,
  answers: readonly Answer[],
  timings: Timings,
): unknown {
  return {
    models: modelRows(stack, selection),
    notServed: selection.notServed.map(({ model, reason }) => ({ model: model.name, reason })),
    answers,
    steps: timings.steps,
    milliseconds: timings.total,
    endpoints: {
      http: stack.triton.httpUrl,
      grpc: stack.triton.grpcAddress,
      metrics: stack.triton.metricsUrl,
      s3: stack.s3.endpoint,
    },
  };
}

interface ModelRow {
  model: string;
  version: string;
  platform: string;
  state: string;
  loadMs: number | null;
  weights: string;
}

function modelRows(stack: LocalStack, selection: LocalSelection): ModelRow[] {
  const platforms = new Map(selection.served.map(({ name, platform }) => [name, platform]));
  const served = stack.versions.map(({ model, version, state, reason }): ModelRow => {
    const weights = stack.models.find(({ name }) => name === model)?.weights[String(version)];
    return {
      model,
      version: String(version),
      platform: platforms.get(model) ?? '',
      state: reason === '' ? state : `${state}: ${reason}`,
      loadMs: stack.loadMs.get(model) ?? null,
      weights: weights ?? '',
    };
  });
  const others = selection.notServed.map(({ model }): ModelRow => ({
    model: model.name,
    version: '',
    platform: model.platform,
    state: 'not served here',
    loadMs: null,
    weights: '',
  }));
  return [...served, ...others].sort((a, b) => (a.model < b.model ? -1 : 1));
}
