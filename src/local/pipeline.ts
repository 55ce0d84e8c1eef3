import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { abortable } from '../core/abort';
import { UsageError, UserError, type Problem } from '../core/errors';
import { formatBytes, formatDuration } from '../core/format';
import { readRepository, stepModels, type RepositoryModel, type Selection } from '../model';
import { WEIGHTS_FILE } from '../model/weights-file';
import type { Progress } from '../cli/progress';
import { desiredModels } from '../publish/desired';
import type { ManifestModel } from '../release/manifest';
import { describeTrace, traceModels, type TraceOptions } from './trace/trace';
import { installModelPackages } from './model-packages';
import { ANSWER, publishBatch, readReleased, refusedModel, untilReady, type BatchOptions } from './publish-batch';
import { selectModels } from './selection';
import { askModel, type SmokeTestResult } from './smoke-test';
import type { LocalStack, LocalTools } from './stack';
import {
  cannotServeAny,
  failedBecause,
  failedModel,
  failedWith,
  readValidModels,
  type FailedModel,
} from './valid-models';

/** Time for an edited model to load or to answer while others wait. The models of this package take less on two busy cores. */
const EDIT_LIMIT_MS = 30_000;

export interface PipelineOptions {
  repository: string;
  /** The models that the command should serve. */
  selection: Pick<Selection, 'models' | 'exclude'>;
  weights: readonly string[];
  /** Limit for the trace of one model before it is served, and for its first load. */
  loadTimeoutMs: number;
  /** Serve models without asking them. */
  noAsk: boolean;
  progress: Progress;
  /** Aborted when the command stops. */
  signal: AbortSignal;
  /** Called when a model answered or failed. */
  show: () => Promise<void>;
}

/** A model as the local stack serves it. */
export type LocalModel = Pick<ManifestModel, 'served' | 'composedOf' | 'weights'> & { name: string };

/**
 * The way of each model, at the start as after an edit: trace, validate, publish, load, ask. Models are published as soon
 * as they are traced, together with all others that are ready at that moment; an ensemble waits for its steps. If a model
 * fails, its previous version is served, if there is one, and the other models go on.
 */
export class Pipeline {
  /** Rejects if a step fails for a reason that no model caused. */
  readonly broken: Promise<never>;
  /** Models whose files are not served. Their previous version may be served. */
  failed: FailedModel[];
  /** The last answers, by model. */
  answers: SmokeTestResult[] = [];
  /** The models of the release, which the agent has loaded and asked. */
  models: LocalModel[] = [];
  /** Model -> what happens with it, until it answers or fails. */
  readonly coming = new Map<string, string>();
  /** Traced models -> how their artifact was compared with PyTorch, or why it cannot be published. */
  readonly checks = new Map<string, 'quick' | 'thorough' | UserError>();
  /** From the start of the command to the first answer. */
  firstAnswerMs: number | undefined;

  private reject: (error: unknown) => void = () => undefined;
  private readonly break = (error: unknown): void => {
    this.isBroken = true;
    this.reject(error);
  };
  private toTrace: string[] = [];
  private toServe: string[] = [];
  private tracing: Promise<void> | undefined;
  private serving: Promise<void> | undefined;
  private checking: { name: string; stop: AbortController } | undefined;
  private shown = Promise.resolve();
  private hashed = Promise.resolve();
  /** Models of which files changed since the command serves. */
  private readonly edited = new Set<string>();
  /** Models to publish one by one, because they could not be published together. */
  private readonly alone = new Set<string>();
  /** Models that answered wrongly while others were still coming, which a Python model may call. */
  private readonly again = new Set<string>();
  private readonly steps = new Map<string, readonly string[]>();
  private isStarted = false;
  private isBroken = false;

  /** @param invalid models that were left out before */
  constructor(
    private readonly tools: LocalTools,
    private readonly options: PipelineOptions,
    invalid: readonly FailedModel[],
  ) {
    this.failed = [...invalid];
    this.broken = new Promise((_, reject) => (this.reject = reject));
    this.broken.catch(() => undefined);
    tools.stack.catch(this.break);
  }

  /** Whether a version of the model is served. */
  isServed(name: string): boolean {
    return this.models.some((model) => model.name === name);
  }

  /** @param names models whose files changed */
  change(names: readonly string[]): void {
    const { exclude = [], models } = this.options.selection;
    const known = (name: string): boolean => this.coming.has(name) || this.models.some((one) => one.name === name);
    const selected = names.filter(
      (name) => !exclude.includes(name) && (models === undefined || models.includes(name) || known(name)),
    );
    for (const name of selected) {
      this.options.progress.line(`${name}: files changed`);
      this.edited.add(name);
    }
    this.add(selected);
  }

  add(names: readonly string[]): void {
    const added = names.filter((name) => !this.toTrace.includes(name));
    this.toTrace.push(...added);
    if (this.checking !== undefined && added.includes(this.checking.name)) this.checking.stop.abort();
    this.toServe = this.toServe.filter((name) => !added.includes(name));
    for (const name of added) this.coming.set(name, 'waiting');
    if (this.toTrace.length > 0) {
      this.tracing ??= this.traceAll()
        .catch(this.break)
        .finally(() => {
          this.tracing = undefined;
          this.serve();
          this.check();
        });
    }
  }

  /** From now on, models that load or answer too slowly do not keep others waiting, and artifacts are checked thoroughly. */
  run(): void {
    this.isStarted = true;
    this.check();
  }

  /**
   * Compares each artifact thoroughly that was traced for this machine, one after the other and at low
   * priority, while the models answer. A stack accepts only artifacts that passed.
   */
  private check(): void {
    const { signal, repository, progress } = this.options;
    const next = [...this.checks].find(([name, checked]) => checked === 'quick' && !this.coming.has(name));
    if (next === undefined || !this.isStarted || signal.aborted) return;
    if (this.checking !== undefined || this.tracing !== undefined || this.serving !== undefined) return;
    const [name] = next;
    const stop = new AbortController();
    this.checking = { name, stop };
    const started = Date.now();
    void this.traceModels([name], {
      background: true,
      signal: AbortSignal.any([signal, stop.signal]),
      onEvent: (event) => {
        if (event.event === 'warning') progress.line(`     ${name}: warning: ${event.text}`);
      },
    })
      .then(() => {
        this.checks.set(name, 'thorough');
        progress.line(`     ${name} passed the thorough check (${formatDuration(Date.now() - started)})`);
      })
      .catch((error: unknown) => {
        if (signal.aborted || stop.signal.aborted || !existsSync(join(repository, name))) return;
        if (!(error instanceof UserError)) throw error;
        const { reason, details } = failedBecause(name, error);
        this.checks.set(name, new UserError(reason));
        const what = 'the thorough check failed; it is served on this machine but cannot be published';
        progress.line(`FAIL ${name}: ${what}\n${details.replace(/^/gm, '     ')}`);
      })
      .catch(this.break)
      .finally(() => {
        this.checking = undefined;
        this.show();
        this.check();
      });
  }

  /** Settles when every model answered or failed. */
  async idle(): Promise<void> {
    while (this.tracing !== undefined || this.serving !== undefined) await (this.tracing ?? this.serving);
    await this.shown;
  }

  /** @throws UserError if no model is served */
  requireAny(): void {
    if (this.models.length === 0) throw cannotServeAny(this.failed);
  }

  private async traceAll(): Promise<void> {
    for (let names = this.toTrace.splice(0); names.length > 0; names = this.toTrace.splice(0)) {
      const models = await this.readConfigurations(names);
      // A warm-up makes a slow model's first answer later, and the user waits for a first one.
      const warmUps = ({ config }: RepositoryModel): number => ((config.model_warmup ?? []).length > 0 ? 1 : 0);
      models.sort((a, b) => warmUps(a) - warmUps(b));
      const traced = models.filter(({ name }) => hasTrace(this.options.repository, name)).map(({ name }) => name);
      const others = models.filter(({ name }) => !traced.includes(name)).map(({ name }) => name);
      await Promise.all([this.trace(traced), this.install(others)]);
    }
  }

  /** Reads what needs no artifact. Models with errors, and those that this machine cannot serve, are left out. */
  private async readConfigurations(names: readonly string[]): Promise<RepositoryModel[]> {
    const { repository, progress } = this.options;
    const gone = names.filter((name) => !existsSync(join(repository, name)));
    for (const name of gone) {
      this.coming.delete(name);
      const fate = this.isServed(name) ? '; the model stays served until "npm run local" starts again' : '';
      progress.line(`${name}: the folder was deleted${fate}`);
    }
    if (gone.length > 0) {
      this.failed = this.failed.filter(({ name }) => !gone.includes(name));
      this.show();
    }
    const present = names.filter((name) => !gone.includes(name));
    if (present.length === 0) return [];
    try {
      const { served, notServed, failed } = selectModels(
        await readValidModels(repository, { models: present, artifacts: false }),
      );
      for (const one of failed) this.fail(one);
      for (const { model, reason } of notServed) {
        this.coming.delete(model.name);
        progress.line(`     ${model.name} is not served here: ${reason}`);
      }
      for (const { name, config } of served) this.steps.set(name, stepModels(config));
      // An ensemble may need models that were not selected.
      const isKnown = (name: string): boolean =>
        this.models.some((one) => one.name === name) || this.failed.some((one) => one.name === name);
      const needed = served.filter(({ name }) => present.includes(name) || (!this.coming.has(name) && !isKnown(name)));
      for (const { name } of needed) this.coming.set(name, 'waiting');
      return needed;
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      for (const name of present) this.fail(failedBecause(name, error));
      return [];
    }
  }

  /** Installs the packages of Python models, which Triton would install without progress. */
  private async install(names: readonly string[]): Promise<void> {
    const { repository, progress } = this.options;
    for (const name of names) {
      try {
        if (existsSync(join(repository, name, 'requirements.txt'))) {
          this.coming.set(name, 'installing packages');
          await installModelPackages(await this.tools.installation, repository, [name], progress);
        }
        this.ready(name);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        this.fail(failedModel(name, [{ file: name, message: error.message }]));
      }
    }
  }

  private async trace(names: readonly string[]): Promise<void> {
    if (names.length === 0) return;
    const { progress } = this.options;
    const step = progress.step('trace');
    const running = new Map<string, string>();
    let [made, upToDate] = [0, 0];
    const rest = new Set(names);
    const end = (name: string): boolean => (running.delete(name) || rest.has(name) ? rest.delete(name) : false);
    try {
      await this.traceModels(names, {
        quick: true,
        limitSeconds: this.options.loadTimeoutMs / 1000,
        signal: this.options.signal,
        onEvent: (event) => {
          const { model } = event;
          if (event.event === 'done' || event.event === 'up-to-date') this.checks.set(model, event.checked);
          if (event.event === 'start' || event.event === 'progress') {
            running.set(model, event.event === 'start' ? 'start' : event.step);
            this.coming.set(model, 'tracing');
          }
          if (event.event === 'warning') progress.line(`     ${model}: warning: ${event.text}`);
          if (event.event === 'failed') {
            end(model);
            this.fail(failedModel(model, [{ file: model, message: event.error, hint: event.hint ?? undefined }]));
          }
          if (event.event === 'done') {
            made += 1;
            progress.line(`     ${model}: ${formatBytes(event.bytes)}, ${describeTrace(event)}`);
          }
          if (event.event === 'up-to-date') upToDate += 1;
          if ((event.event === 'done' || event.event === 'up-to-date') && end(model)) this.ready(model);
          step.update([...running].map(([name, what]) => `${name}: ${what}`).join(', '));
        },
      });
      for (const name of rest) this.ready(name);
    } catch (error) {
      this.options.signal.throwIfAborted();
      if (!(error instanceof UserError) || error instanceof UsageError) throw error;
      const own = (name: string): Problem[] => error.problems.filter(({ file }) => file === name);
      const isOfSome = [...rest].some((name) => own(name).length > 0);
      for (const name of rest) {
        if (own(name).length > 0) this.fail(failedModel(name, own(name)));
        // Nothing was traced, because the weights of another model could not be downloaded.
        else if (isOfSome) this.toTrace.push(name);
        else this.fail(failedBecause(name, error));
      }
    } finally {
      const failed = names.length - made - upToDate;
      step.done(`${made} traced, ${upToDate} up to date${failed === 0 ? '' : `, ${failed} FAILED`}`);
    }
  }

  private traceModels(
    models: readonly string[],
    options: Pick<TraceOptions, 'quick' | 'background' | 'limitSeconds' | 'signal' | 'onEvent'>,
  ): Promise<void> {
    const { repository } = this.options;
    // At the start, a wrong name is an error. Later, the folder of a model may have been deleted.
    const weights = this.options.weights.filter(
      (text) => !this.isStarted || models.some((name) => text.startsWith(`${name}=`)),
    );
    return traceModels({ python: this.tools.environment.python, repository, models, weights, ...options });
  }

  /** Passes a model on that can be published. */
  private ready(name: string): void {
    this.coming.set(name, 'waiting to be published');
    this.toServe.push(name);
    // While the servers start; the publish then knows the digests of large files, unless they changed.
    this.hashed = this.hashed
      .then(() => readRepository(this.options.repository, { models: [name] }))
      .then(({ models }) => desiredModels(models))
      .then(() => undefined)
      .catch(() => undefined);
    this.serve();
  }

  private serve(): void {
    if (this.isBroken || this.options.signal.aborted || this.getBatch().length === 0) return;
    this.serving ??= this.serveAll()
      .catch(this.break)
      .finally(() => {
        this.serving = undefined;
        this.serve();
        this.check();
      });
  }

  private async serveAll(): Promise<void> {
    const [stack] = await Promise.all([this.tools.stack, this.hashed]);
    for (let batch = this.getBatch(); batch.length > 0 && !this.options.signal.aborted; batch = this.getBatch()) {
      this.toServe = this.toServe.filter((name) => !batch.includes(name));
      await this.serveBatch(stack, batch);
    }
  }

  /** The models that can be published now: those whose steps are not traced any more. */
  private getBatch(): string[] {
    if (this.toServe.length === 0 && this.toTrace.length === 0 && this.tracing === undefined) {
      this.toServe.push(...this.again);
      this.again.clear();
    }
    const isReady = (name: string): boolean =>
      this.toServe.includes(name) &&
      (this.steps.get(name) ?? []).every((step) => !this.coming.has(step) || isReady(step));
    const batch = this.toServe.filter(isReady);
    const first = batch.find((name) => this.alone.has(name));
    return first === undefined ? batch : [first];
  }

  private async serveBatch(stack: LocalStack, given: readonly string[]): Promise<void> {
    const { repository, progress, signal, noAsk } = this.options;
    const started = Date.now();
    const step = progress.step('serve');
    const onStage = (stage: string, names: readonly string[]): void => {
      for (const name of names) this.coming.set(name, stage);
      step.update(`${stage} ${names.join(', ')}`);
    };
    const models = await this.readValid(given);
    if (models.length === 0) {
      step.failed();
      return;
    }
    const serve = async (model: RepositoryModel): Promise<void> => {
      onStage('ask', [model.name]);
      if (!noAsk) this.answered(await abortable(askModel(stack.triton.httpUrl, model), signal));
      this.end([model.name], started);
    };
    let left: readonly RepositoryModel[] = models;
    try {
      left = await this.serveReleased(stack, models, onStage, serve);
      const names = left.map(({ name }) => name);
      if (names.length > 0) {
        await abortable(stack.home, signal);
        await this.setReleased(stack);
        onStage('publish', names);
        await publishBatch(stack, names, {
          ...{ repository, signal, noAsk },
          ...this.getLimit(names),
          onStage: (text) => step.update(`${names.join(', ')}: ${text}`),
        });
        await this.setReleased(stack);
        for (const model of left) await serve(model);
      }
      step.done(models.map(({ name }) => name).join(', '));
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof UserError)) throw error;
      await this.setReleased(stack);
      const names = left.map(({ name }) => name);
      const culprit = names.length === 1 ? names[0] : refusedModel(error.message, names);
      if (culprit === undefined) for (const name of names) this.alone.add(name);
      else this.refused(failedBecause(culprit, error), ANSWER.test(error.message) && !/within \d/.test(error.message));
      this.toServe.unshift(...names.filter((name) => name !== culprit));
      step.failed();
    } finally {
      this.show();
    }
  }

  /**
   * Asks the models that the release of the earlier run holds without changes, each as soon as Triton serves it.
   * @returns the others
   */
  private async serveReleased(
    stack: LocalStack,
    models: readonly RepositoryModel[],
    onStage: (stage: string, names: readonly string[]) => void,
    serve: (model: RepositoryModel) => Promise<void>,
  ): Promise<RepositoryModel[]> {
    const { release, unchanged } = await readReleased(stack, models);
    onStage('load', unchanged);
    const served = await Promise.all(
      models.map(async (model) => {
        const { name } = model;
        const released = release?.models[name];
        if (released === undefined || !unchanged.includes(name)) return false;
        if (!(await untilReady(stack, model, this.options.signal))) return false;
        this.models = [...this.models.filter((one) => one.name !== name), { name, ...released }];
        await serve(model);
        return true;
      }),
    );
    return models.filter((_, i) => served[i] === false);
  }

  /** The agent serves the current release, or goes back to it. */
  private async setReleased(stack: LocalStack): Promise<void> {
    const { release } = await readReleased(stack, []);
    this.models = Object.entries(release?.models ?? {}).map(([name, model]) => ({ name, ...model }));
  }

  private getLimit(names: readonly string[]): Pick<BatchOptions, 'limitMs' | 'isWaitedFor' | 'limitReason'> {
    if (!this.isStarted) {
      return { limitMs: this.options.loadTimeoutMs, isWaitedFor: () => true, limitReason: ' (--load-timeout)' };
    }
    const isWaitedFor = (): boolean =>
      names.length > 1 || [...this.coming.keys()].some((name) => !names.includes(name));
    return { limitMs: EDIT_LIMIT_MS, isWaitedFor, limitReason: ', because other models were waiting' };
  }

  /** Reads models with their artifacts. Models with errors, and ensembles whose steps failed, are left out. */
  private async readValid(names: readonly string[]): Promise<RepositoryModel[]> {
    const left: string[] = [];
    for (const name of names) {
      // The folder was deleted after its model was traced.
      if (!existsSync(join(this.options.repository, name))) {
        this.coming.delete(name);
        continue;
      }
      const needs = (this.steps.get(name) ?? []).find((step) => this.failed.some((one) => one.name === step));
      if (needs === undefined) left.push(name);
      else this.fail(failedWith(name, needs));
    }
    if (left.length === 0) return [];
    const { models, failed } = await readValidModels(this.options.repository, { models: left });
    for (const one of failed) this.fail(one);
    return models;
  }

  private answered(answer: SmokeTestResult): void {
    const { progress } = this.options;
    const { model: name } = answer;
    this.answers = [...this.answers.filter(({ model }) => model !== name), answer].sort((a, b) =>
      a.model < b.model ? -1 : 1,
    );
    const now = performance.now();
    const what = answer.error === undefined ? answer.result : `READY, request of zeros failed: ${answer.error}`;
    if (this.edited.has(name)) progress.line(`     ${name} answered: ${what}`);
    else if (this.firstAnswerMs === undefined)
      progress.line(`first answer after ${formatDuration(now)}: ${name} ${what}`);
    else progress.line(`     ${name} answered after ${formatDuration(now)}: ${what}`);
    this.firstAnswerMs ??= now;
    this.again.delete(name);
    if (!this.toTrace.includes(name)) this.coming.delete(name);
    this.show();
  }

  /** Ends the way of models that are served, and begins that of ensembles that failed because of them. */
  private end(names: readonly string[], started: number): void {
    this.failed = this.failed.filter(({ name }) => !names.includes(name));
    for (const name of names) {
      if (!this.toTrace.includes(name)) this.coming.delete(name);
      if (!this.edited.delete(name)) continue;
      const took = formatDuration(Date.now() - started);
      this.options.progress.line(`     ${name} is served with the changed files (${took})`);
    }
    // Those that are coming are published together with the model that they need.
    const dependents = this.failed.filter(
      ({ name, needs }) => needs !== undefined && names.includes(needs) && !this.coming.has(name),
    );
    for (const { name } of dependents) this.edited.add(name);
    this.add(dependents.map(({ name }) => name));
  }

  /** @param isAnswer whether the model answered wrongly: a Python model may call a model that is still coming */
  private refused(failed: FailedModel, isAnswer: boolean): void {
    const { name } = failed;
    this.again.delete(name);
    const isEarly =
      isAnswer &&
      [...this.coming].some(([other, what]) => other !== name && /^(waiting|tracing|installing)/.test(what));
    if (isEarly) {
      this.again.add(name);
      this.coming.set(name, 'waiting for other models');
    } else this.fail(failed);
  }

  private fail(failed: FailedModel): void {
    const { name } = failed;
    if (!this.toTrace.includes(name)) this.coming.delete(name);
    this.edited.delete(name);
    this.failed = [...this.failed.filter((one) => one.name !== name), failed];
    const what = this.isServed(name) ? 'the previous version is served' : 'the model is not served';
    this.options.progress.line(`FAIL ${name}: ${what}\n${failed.details.replace(/^/gm, '     ')}`);
    this.show();
  }

  private show(): void {
    this.shown = this.shown.then(() => this.options.show()).catch(this.break);
  }
}

/** Whether the model's artifact is traced or downloaded here. Other models bring their artifact. */
const hasTrace = (repository: string, model: string): boolean =>
  ['trace.py', WEIGHTS_FILE].some((name) => existsSync(join(repository, model, name)));
