import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { formatUserError, UserError } from '../core/errors';
import { formatDuration } from '../core/format';
import { readRepository, readValidRepository, type RepositoryModel, type Selection } from '../model';
import type { Progress } from '../cli/progress';
import { publish } from '../publish/publish';
import type { ServedVersion } from '../publish/apply/rollout';
import { servedNow } from '../publish/status';
import { fixedReplicas } from '../cluster/source';
import { describeTrace, traceModels } from '../trace/trace';
import { LOAD_LIMIT_MS, LoadLimit } from './load-limit';
import { askEachModel, type SmokeTestResult } from './smoke-test';
import { selectModels } from './selection';
import { withShortWarmUp } from './short-warm-up';
import { hasTrace, LOCK_TIMEOUT_MS, RELOAD_TIMEOUT_MS, type LocalStack } from './stack';

export interface ReloadOptions {
  repository: string;
  /** The models that the command should serve. */
  selection: Pick<Selection, 'models' | 'exclude'>;
  weights: readonly string[];
  progress: Progress;
  stack: LocalStack;
  signal: AbortSignal;
  /** Whether other reloads wait for this one. If so, a load that takes too long is stopped. */
  isWaitedFor: () => boolean;
}

/** The result of a reload. */
export interface Reloaded {
  /** The models that were loaded: the model, and for an ensemble its parts. */
  models: RepositoryModel[];
  /** The answers, which are also printed when they arrive. */
  answers: Promise<SmokeTestResult[]>;
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
 * loaded, the previous version stays served and the reason is printed. A model that answers wrongly is reported and
 * stays served.
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
  let hint = '';
  try {
    const { served, notServed } = await selectModels(repository, { models: [name] });
    const reason = notServed.find(({ model }) => model.name === name)?.reason;
    if (reason !== undefined) {
      progress.line(`     ${name} is not served here: ${reason}`);
      return undefined;
    }
    const names = served.map((model) => model.name);
    await trace(names, options);
    signal.throwIfAborted();
    await readValidRepository(repository, { models: names }, 'served');
    hint = `\n-> read Triton's log: ${stack.triton.logFile}`;
    // A model that failed before, or was added, is new to the stack.
    const { models: published } = await publish({
      repository,
      models: names,
      store: stack.store,
      location: stack.location,
      replicas: fixedReplicas([stack.triton.httpUrl], stack.triton.modelControlKey),
      replacePublished: true,
      reload: true,
      adapt: withShortWarmUp,
      // A model that answers wrongly stays served, because the user wants to examine it. It is asked below.
      noAsk: true,
      loadTimeoutMs: RELOAD_TIMEOUT_MS,
      lockTimeoutMs: LOCK_TIMEOUT_MS,
      signal,
      onLoading: (_, model) => limit.begin(model),
      onReady: (_, model, ms) => {
        limit.stop();
        progress.line(`     ${model} READY (${formatDuration(ms)})`);
      },
    });
    const others = stack.models.filter((model) => !published.some((one) => one.name === model.name));
    stack.models = [...others, ...published];
    stack.failed = stack.failed.filter((one) => !names.includes(one.name));
    stack.versions = await versionsNow(stack, names);
    const { models } = await readRepository(repository, { models: names });
    progress.line(`     ${name} is served with the changed files (${formatDuration(Date.now() - started)})`);
    return { models, answers: askAndPrint(models, options) };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof UserError)) throw error;
    const isServed = stack.versions.some(({ model, state }) => model === name && state === 'READY');
    const what = isServed ? 'the previous files are still served' : 'the model is still not served';
    const stopped = limit.ended
      ? `the load was stopped after ${LOAD_LIMIT_MS / 1000} s, because other reloads were waiting\n`
      : '';
    progress.line(`FAIL ${name}: ${what}\n${indented(`${stopped}${formatUserError(error)}${hint}`)}`);
    return undefined;
  } finally {
    limit.stop();
  }
}

/** State of each version. The reasons of earlier failures are kept, because the server no longer reports them. */
async function versionsNow(
  { triton, models, versions }: LocalStack,
  reloaded: readonly string[],
): Promise<ServedVersion[]> {
  const before = (now: ServedVersion): ServedVersion | undefined =>
    reloaded.includes(now.model) || now.state === 'READY'
      ? undefined
      : versions.find(
          ({ model, version, state }) => model === now.model && version === now.version && state !== 'READY',
        );
  return (await servedNow(triton, models)).map((now) => before(now) ?? now);
}

async function askAndPrint(
  models: readonly RepositoryModel[],
  { stack, progress, signal }: ReloadOptions,
): Promise<SmokeTestResult[]> {
  const answers = await askEachModel(stack.triton, models);
  for (const answer of answers.filter(({ protocol }) => protocol === 'HTTP')) {
    if (!signal.aborted) progress.line(`     ${describe(answer)}`);
  }
  return answers;
}

const describe = ({ model, result, error }: SmokeTestResult): string =>
  error === undefined ? `${model} answered: ${result}` : `${model} FAILED: ${error}`;

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
