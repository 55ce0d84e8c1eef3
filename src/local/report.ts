import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { UserError } from '../core/errors';
import { formatDuration, formatTable, shortened } from '../core/format';
import { stepModels } from '../model';
import { nextCommand, repoFlag } from '../core/next-command';
import { displayPath } from '../model/paths';
import { formatLocation } from '../release/location';
import { nextCommands } from './hints';
import type { SmokeTestResult } from './smoke-test';
import type { LocalSelection } from './selection';
import type { LocalStack } from './stack';
import type { Pipeline } from './pipeline';

/** Prints the served models after the start, and the reasons why others are not served. */
export function printModels(pipeline: Served, selection: LocalSelection): void {
  const rows = modelRows(pipeline, selection).map(({ model, version, platform, state, reason, weights }) => [
    model,
    version,
    platform,
    state === NOT_SERVED || reason === '' ? state : `${state}: ${shortened(firstLine(reason), LONGEST_REASON)}`,
    weights,
  ]);
  const table = formatTable(['model', 'version', 'platform', 'state', 'weights'], rows);
  const notes = [
    ...selection.notServed.map(({ model, reason }) => `${model.name} is not served here: ${reason}.`),
    ...pipeline.failed.map(
      ({ name, details }) => `${name} FAILED: ${pipeline.isServed(name) ? PREVIOUS : ''}${details}`,
    ),
  ];
  process.stdout.write(`\n${[table, ...notes].join('\n')}\n\n`);
}

/** Width of a reason in the table. The full text is printed below. */
const LONGEST_REASON = 60;

const PREVIOUS = 'the previous version is served. ';

const firstLine = (text: string): string => text.split('\n')[0] ?? '';

export function printAnswers(answers: readonly SmokeTestResult[]): void {
  const rows = answers.map(({ model, milliseconds, result, error, isZeros }) => [
    model,
    formatDuration(milliseconds),
    error === undefined
      ? result
      : `${isZeros === true ? 'READY, request of zeros failed' : 'FAILED'}: ${firstLine(error)}`,
  ]);
  process.stdout.write(`${formatTable(['model', 'time', 'answer'], rows)}\n\n`);
  for (const { model, error, hint } of answers) {
    if (error !== undefined)
      process.stdout.write(`${model}: ${error}${hint === undefined ? '' : `\n  -> ${hint}`}\n\n`);
  }
}

/** After --once: the models whose artifacts a stack would not accept yet. */
export function printChecks({ checks }: Served, repository: string): void {
  const quick = [...checks].flatMap(([name, checked]) => (checked === 'quick' ? [name] : []));
  if (quick.length === 0) return;
  const command = nextCommand('trace', ...repoFlag(repository));
  process.stdout.write(
    `Checked only quickly: ${quick.join(', ')}. "${command}" checks them as a publish to a stack needs.\n\n`,
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
export function printEndpoints(
  { triton, agent, s3, location }: LocalStack,
  { models }: Served,
  repository: string,
): void {
  const rows = [
    ['Triton HTTP', triton.httpUrl],
    ['Triton gRPC', triton.grpcAddress],
    ['Triton metrics', triton.metricsUrl],
    ['S3', `${s3.endpoint}  ${formatLocation(location)}`],
    ['Triton log', triton.logFile],
    ['Release agent', triton.agentUrl],
    ['Agent metrics', agent.metricsUrl],
    ['Agent log', agent.logFile],
  ];
  const next = nextCommands(
    models.map(({ name }) => name),
    repository,
  );
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

/** @throws UserError that names each model that is not served, or answered wrongly, with the reason */
export function requireAllServed({ failed, answers }: Served): void {
  if (failed.length > 0) {
    throw new UserError('cannot serve every model', { problems: failed.flatMap(({ problems }) => problems) });
  }
  const wrong = answers.filter(({ error }) => error !== undefined).map(({ model }) => model);
  if (wrong.length > 0) throw new UserError(`no correct answer from ${wrong.join(', ')}`);
}

/** Prints the result as one JSON object, for scripts. */
export function printJson(result: LocalResult, page: string): void {
  // The pictures of the answers are only for the page.
  const answers = result.answers.map((answer) => ({ ...answer, exhibit: undefined }));
  process.stdout.write(`${JSON.stringify({ ...result, answers, page }, null, 2)}\n`);
}

/** What is served, and what is still coming. */
export type Served = Pick<
  Pipeline,
  'models' | 'failed' | 'answers' | 'checks' | 'coming' | 'firstAnswerMs' | 'isServed'
>;

/** The state at one time: after each answer, and when every model was asked. */
export interface LocalResult {
  models: ModelRow[];
  notServed: { model: string; reason: string }[];
  answers: readonly SmokeTestResult[];
  /** From the start of the command to the first answer. */
  firstAnswerMs: number | undefined;
  /** From the start of the command until now. */
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
    /** The control API of the release agent. */
    agent: string;
    agentLog: string;
  };
}

/** A served version of a model, or a model that is not served. */
export interface ModelRow {
  model: string;
  /** Empty if the model is not served. */
  version: string;
  platform: string;
  /** `READY`, `FAILED`, `not served here`, or what happens with the model now: `tracing`, `load`. */
  state: string;
  /** Reason for the state; for READY, why the model cannot be published, or empty. */
  reason: string;
  /** Whether the artifact was compared with PyTorch only quickly until now. */
  isQuick: boolean;
  /** Source of the weights; empty if unknown. */
  weights: string;
  /** The models that an ensemble consists of, in order. */
  composedOf: string[];
}

const NOT_SERVED = 'not served here';
const FAILED = 'FAILED';

export function localResult(stack: LocalStack, served: Served, selection: LocalSelection): LocalResult {
  const { triton, s3, location } = stack;
  return {
    models: modelRows(served, selection),
    notServed: selection.notServed.map(({ model, reason }) => ({ model: model.name, reason })),
    answers: served.answers,
    firstAnswerMs: served.firstAnswerMs,
    milliseconds: performance.now(),
    endpoints: {
      http: triton.httpUrl,
      grpc: triton.grpcAddress,
      metrics: triton.metricsUrl,
      s3: s3.endpoint,
      repository: formatLocation(location),
      tritonLog: triton.logFile,
      agent: triton.agentUrl,
      agentLog: stack.agent.logFile,
    },
  };
}

function describeCheck({ checks }: Served, model: string): string {
  const checked = checks.get(model);
  return checked instanceof UserError ? `it cannot be published: the thorough check failed: ${checked.message}` : '';
}

function modelRows(served: Served, selection: LocalSelection): ModelRow[] {
  const configured = new Map(selection.served.map((model) => [model.name, model]));
  const row = (model: string, state: string, fields: Partial<ModelRow> = {}): ModelRow => {
    const read = configured.get(model);
    return {
      ...{
        model,
        state,
        version: '',
        platform: read?.platform ?? '',
        reason: '',
        weights: '',
        isQuick: false,
      },
      composedOf: read === undefined ? [] : stepModels(read.config),
      ...fields,
    };
  };
  const failures = new Map(served.failed.map(({ name, reason }) => [name, reason]));
  const ready = served.models
    .filter(({ name }) => !served.coming.has(name))
    .flatMap(({ name, served: versions, weights }) => versions.map((version) => ({ name, version, weights })))
    .map(({ name, version, weights }) => {
      const failure = failures.get(name);
      return row(name, failure === undefined ? 'READY' : FAILED, {
        version: String(version),
        reason: failure === undefined ? describeCheck(served, name) : `${PREVIOUS}${failure}`,
        isQuick: served.checks.get(name) === 'quick',
        weights: weights?.[String(version)] ?? '',
      });
    });
  const rows = [
    ...ready,
    ...[...served.coming].map(([model, state]) => row(model, state)),
    ...selection.notServed.map(({ model, reason }) =>
      row(model.name, NOT_SERVED, { platform: model.platform, reason, composedOf: stepModels(model.config) }),
    ),
  ];
  const others = [...failures].filter(([name]) => !rows.some(({ model }) => model === name));
  rows.push(...others.map(([model, reason]) => row(model, FAILED, { reason })));
  return rows.sort((a, b) => (a.model < b.model ? -1 : 1));
}
