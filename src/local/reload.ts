import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { abortable } from '../core/abort';
import { formatDuration } from '../core/format';
import { readRepository, readValidRepository, type Selection } from '../model';
import type { Progress } from '../cli/progress';
import { publish } from '../publish/publish';
import { describeTrace, traceModels } from '../trace/trace';
import { LOAD_LIMIT_MS, LoadLimit, LOOK_MS } from './load-limit';
import { isServed } from './report';
import { askEachModel, isWrong, isZerosRefused, wrongAnswer, type SmokeTestResult } from './smoke-test';
import { selectModels } from './selection';
import { withShortWarmUp } from './short-warm-up';
import { LOCK_TIMEOUT_MS } from './publish-selected';
import { hasTrace, readLog, RELOAD_TIMEOUT_MS, versionsNow, type LocalStack } from './stack';
import { failedBecause } from './valid-models';

export interface ReloadOptions {
  repository: string;
  /** The models that the command should serve. */
  selection: Pick<Selection, 'models' | 'exclude'>;
  weights: readonly string[];
  progress: Progress;
  stack: LocalStack;
  signal: AbortSignal;
  /** Serve models without asking them. */
  noAsk: boolean;
  /** The last answers of the models. */
  before: readonly SmokeTestResult[];
  /** Whether other reloads wait for this one. If so, a load or an answer that takes too long is not waited for. */
  isWaitedFor: () => boolean;
}

/** The result of a reload. */
export interface Reloaded {
  /** The models that were loaded: the model, and for an ensemble its parts. */
  models: string[];
  answers: SmokeTestResult[];
}

/** Whether the command serves a model of this name, because the model was selected or an ensemble needs it. */
export function isSelected(
  { models, exclude = [] }: Pick<Selection, 'models' | 'exclude'>,
  name: string,
  stack: Pick<LocalStack, 'models'>,
): boolean {
  if (exclude.includes(name)) return false;
  return models === undefined || models.includes(name) || stack.models.some((model) => model.name === name);
}

/**
 * Traces a model whose files changed, publishes it to the local bucket, loads it and asks it. If the model cannot be
 * loaded or answers wrongly, the previous version is served, and the reason is printed.
 */
export async function reloadModel(name: string, options: ReloadOptions): Promise<Reloaded | undefined> {
  const { progress, repository, stack, signal } = options;
  if (!existsSync(join(repository, name))) {
    progress.line(`${name}: the folder was deleted; the model stays served until "npm run local" starts again`);
    return undefined;
  }
  progress.line(`${name}: files changed`);
  const started = Date.now();
  const limit = new LoadLimit(stack.triton.pid, LOAD_LIMIT_MS, options.isWaitedFor);
  // Empty until Triton is involved, because its log does not explain earlier failures.
  let hint: string | undefined;
  const answers: SmokeTestResult[] = [];
  try {
    const configurations = await readValidRepository(repository, { models: [name], artifacts: false }, 'served');
    const { served, notServed } = selectModels({ ...configurations, failed: [] });
    const reason = notServed.find(({ model }) => model.name === name)?.reason;
    if (reason !== undefined) {
      progress.line(`     ${name} is not served here: ${reason}`);
      return undefined;
    }
    const names = served.map((model) => model.name);
    await trace(names, options);
    signal.throwIfAborted();
    await readValidRepository(repository, { models: names }, 'served');
    hint = readLog(stack.triton);
    // A model that failed before, or was added, is new to the stack.
    const { models: published } = await publish({
      repository,
      models: names,
      store: stack.store,
      location: stack.location,
      replicas: stack.replicas,
      ...stack.through,
      replacePublished: true,
      reload: true,
      adaptToThisMachine: withShortWarmUp,
      noAsk: options.noAsk,
      ask: options.noAsk ? undefined : async (_, __, model) => void answers.push(...(await ask(model.name, options))),
      loadTimeoutMs: RELOAD_TIMEOUT_MS,
      lockTimeoutMs: LOCK_TIMEOUT_MS,
      signal,
      onLoading: (_, model) => limit.begin(model),
      onReady: (_, model, ms) => {
        limit.stop();
        progress.line(`     ${model} READY (${formatDuration(ms)})`);
      },
    });
    // The agent has asked them before the release counted; these are the answers to show.
    if (stack.agent !== undefined && !options.noAsk) answers.push(...(await askAll(names, options)));
    const others = stack.models.filter((model) => !published.some((one) => one.name === model.name));
    stack.models = [...others, ...published];
    stack.failed = stack.failed.filter((one) => !names.includes(one.name));
    stack.versions = await versionsNow(stack, names);
    progress.line(`     ${name} is served with the changed files (${formatDuration(Date.now() - started)})`);
    for (const answer of answers) if (answer.protocol === 'HTTP') progress.line(`     ${describe(answer)}`);
    return { models: names, answers };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof UserError)) throw error;
    if (limit.ended) error.message = `the load was stopped after ${LIMIT}\n${error.message}`;
    const failure = failedBecause(name, error);
    stack.failed = [...stack.failed.filter((one) => one.name !== name), failure];
    const what = isServed(stack, name) ? 'the previous version is served' : 'the model is not served';
    const log = hint === undefined ? '' : `\n  -> ${hint}`;
    progress.line(`FAIL ${name}: ${what}\n${indented(`${failure.details}${log}`)}`);
    return undefined;
  } finally {
    limit.stop();
  }
}

const LIMIT = `${LOAD_LIMIT_MS / 1000} s, because other reloads were waiting`;

async function askAll(names: readonly string[], { repository, stack }: ReloadOptions): Promise<SmokeTestResult[]> {
  const { models } = await readRepository(repository, { models: names });
  return askEachModel(stack.triton, models);
}

/**
 * @throws UserError if the model answers wrongly, refuses zeros that it answered before, or does not answer while other
 * reloads wait
 */
async function ask(name: string, options: ReloadOptions): Promise<SmokeTestResult[]> {
  const answeredZeros = options.before.some(
    ({ model, isZeros, error }) => model === name && isZeros && error === undefined,
  );
  const stop = new AbortController();
  const limit = setInterval(() => {
    if (performance.now() > deadline && options.isWaitedFor())
      stop.abort(new UserError(`${name} did not answer within ${LIMIT}`));
  }, LOOK_MS);
  const deadline = performance.now() + LOAD_LIMIT_MS;
  try {
    const answers = await abortable(askAll([name], options), stop.signal);
    const wrong = answers.find((answer) => isWrong(answer) || (answeredZeros && isZerosRefused(answer)));
    if (wrong !== undefined) throw wrongAnswer(wrong);
    return answers;
  } finally {
    clearInterval(limit);
  }
}

const describe = (answer: SmokeTestResult): string =>
  answer.error === undefined
    ? `${answer.model} answered: ${answer.result}`
    : `${answer.model} ${isZerosRefused(answer) ? 'READY, request of zeros failed' : 'FAILED'}: ${answer.error}`;

const indented = (text: string): string => text.replace(/^/gm, '     ');

async function trace(names: readonly string[], { repository, weights, progress, stack }: ReloadOptions): Promise<void> {
  const models = names.filter((name) => hasTrace(repository, name));
  if (models.length === 0) return;
  const own = weights.filter((text) => models.some((name) => text.startsWith(`${name}=`)));
  await traceModels({
    python: stack.python,
    repository,
    models,
    weights: own,
    onEvent: (event) => {
      if (event.event === 'warning') progress.line(`     ${event.model}: warning: ${event.text}`);
      if (event.event === 'done') progress.line(`     ${event.model} traced: ${describeTrace(event)}`);
    },
  });
}
