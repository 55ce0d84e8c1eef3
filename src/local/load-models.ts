import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../core/errors';
import { forEachLimited } from '../core/concurrency';
import { servedNow } from '../publish/status';
import type { ServedVersion } from '../publish/apply/rollout';
import type { DesiredModel } from '../publish/plan/desired';
import { replicaClient } from '../cluster/source';
import type { ModelEvent, TritonProcess } from './triton-server';
import { LoadLimit } from './load-limit';
import { failedWith, type FailedModel } from './valid-models';

/** Number of models that tritonserver loads concurrently (--model-load-thread-count). */
const AT_ONCE = 4;

/** Time for Triton to report a load as failed after its processes were killed. */
const ANSWER_MS = 30_000;

/** Time for the end of the server to be reported after its connections were lost. */
const END_IS_KNOWN_MS = 2000;

/** The result of loading models. */
export interface Loaded {
  /** Models whose load was attempted, in the given order. */
  models: DesiredModel[];
  versions: ServedVersion[];
  /** Ensembles that were not loaded, because a model that they need failed. */
  failed: FailedModel[];
  /** Model -> milliseconds from the start of its first load to READY. */
  milliseconds: ReadonlyMap<string, number>;
}

/**
 * Loads models into an empty tritonserver through its model control API. Each load has its own limit, so a load that
 * hangs does not affect other models. A server that loads models at start is not ready before the last load ends.
 */
export class ModelLoads {
  /** Model -> milliseconds from the start of its first load to READY. */
  readonly milliseconds = new Map<string, number>();
  private readonly started = new Map<string, number>();
  /** Model -> reason why its load failed. */
  private readonly errors = new Map<string, string>();
  private readonly stopped = new Set<string>();

  /**
   * @param limitMs limit for one model
   * @param onProgress receives the text to show
   */
  constructor(
    private readonly limitMs: number,
    private readonly onProgress: (text: string) => void,
  ) {}

  /** Processes an event from the server's log. */
  see({ model, kind }: ModelEvent): void {
    const now = Date.now();
    if (kind === 'loading' && !this.started.has(model)) this.started.set(model, now);
    if (kind === 'loaded') this.milliseconds.set(model, now - (this.started.get(model) ?? now));
    this.showProgress();
  }

  /** @param models ordered so that the models of an ensemble precede the ensemble */
  async loadAll(server: TritonProcess, models: readonly DesiredModel[]): Promise<Loaded> {
    const ended = server.ended.then((how) => {
      throw new UserError(`tritonserver ended (${how}):\n${server.lastLines(8)}`, {
        hint: `read the log: ${server.logFile}`,
      });
    });
    const loaded = this.load(server, models).catch(async (error: unknown) => {
      // The server's end explains more than a lost connection.
      await Promise.race([ended, sleep(END_IS_KNOWN_MS)]);
      throw error;
    });
    return Promise.race([loaded, ended]);
  }

  private async load(server: TritonProcess, models: readonly DesiredModel[]): Promise<Loaded> {
    await forEachLimited(
      models.filter(({ composedOf }) => composedOf.length === 0),
      AT_ONCE,
      ({ name }) => this.loadOne(server, name),
    );
    const failed: FailedModel[] = [];
    for (const { name, composedOf } of models.filter((model) => model.composedOf.length > 0)) {
      // Triton would load the failed model again.
      const needs = composedOf.find((step) => this.errors.has(step) || failed.some((one) => one.name === step));
      if (needs === undefined) await this.loadOne(server, name);
      else failed.push(failedWith(name, needs));
    }
    const tried = models.filter(({ name }) => !failed.some((one) => one.name === name));
    const versions = (await servedNow(server, tried)).map((version) => {
      const { model, state, reason } = version;
      const isExplained = reason !== '' && !this.stopped.has(model);
      return state === 'READY' || isExplained ? version : { ...version, reason: this.errors.get(model) ?? '' };
    });
    return { models: tried, versions, failed, milliseconds: this.milliseconds };
  }

  private async loadOne(server: TritonProcess, model: string): Promise<void> {
    const client = replicaClient(server.control);
    const limit = new LoadLimit(server.pid, this.limitMs);
    limit.begin(model);
    try {
      await client.loadModel(model, { timeoutMs: this.limitMs + ANSWER_MS });
    } catch (error) {
      if (limit.ended) this.stopped.add(model);
      this.errors.set(model, limit.ended ? stoppedAfter(this.limitMs) : (error as Error).message);
    } finally {
      limit.stop();
      client.close();
    }
  }

  private showProgress(): void {
    const loading = [...this.started.keys()].filter((name) => !this.milliseconds.has(name) && !this.errors.has(name));
    const now = loading.length === 0 ? '' : `, loading ${loading.join(', ')}`;
    this.onProgress(`${this.milliseconds.size} loaded${now}`);
  }
}

const stoppedAfter = (limitMs: number): string => `the load was stopped after ${limitMs / 1000} s (--load-timeout)`;
