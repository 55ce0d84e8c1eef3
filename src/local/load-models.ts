import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../core/errors';
import { forEachLimited } from '../core/pool';
import { servedNow } from '../publish/status';
import type { ServedVersion } from '../publish/apply/rollout';
import type { WantedModel } from '../publish/plan/desired';
import { replicaClient } from '../cluster/source';
import type { ModelEvent, TritonServer } from './triton-server';
import { LoadLimit } from './load-limit';
import { failedWith, type FailedModel } from './sound';

/** As many as tritonserver loads side by side (--model-load-thread-count). */
const AT_ONCE = 4;

/** For Triton to report a load as failed once its processes were ended. */
const ANSWER_MS = 30_000;

/** For the end of the server to be known after its connections were lost. */
const END_IS_KNOWN_MS = 2000;

/** What came of the models. */
export interface Loaded {
  /** Those that were loaded or tried, in the order given. */
  models: WantedModel[];
  versions: ServedVersion[];
  /** Ensembles that were not tried, because a model that they need failed. */
  failed: FailedModel[];
}

/**
 * Loads models into a tritonserver that has none, through its model control API: each load has a limit of its own, and one
 * that hangs leaves the others served. A server that loads models as it starts is not ready before the last load ends.
 */
export class ModelLoads {
  /** Model -> milliseconds from its first loading to READY. */
  readonly milliseconds = new Map<string, number>();
  private readonly started = new Map<string, number>();
  private readonly waiting = new Map<string, () => void>();
  private turn = Promise.resolve();
  /** Model -> why its load failed. */
  private readonly errors = new Map<string, string>();
  private readonly stopped = new Set<string>();

  /**
   * @param limitMs for one model
   * @param onProgress what to show of it
   */
  constructor(
    private readonly limitMs: number,
    private readonly onProgress: (text: string) => void,
  ) {}

  /** Takes what the server's log tells. */
  see({ model, kind }: ModelEvent): void {
    const now = Date.now();
    if (kind === 'loading') {
      this.waiting.get(model)?.();
      if (!this.started.has(model)) this.started.set(model, now);
    }
    if (kind === 'loaded') this.milliseconds.set(model, now - (this.started.get(model) ?? now));
    this.showProgress();
  }

  /** @param models what ensembles are made of before the ensembles */
  async loadAll(server: TritonServer, models: readonly WantedModel[]): Promise<Loaded> {
    const ended = server.ended.then((how) => {
      throw new UserError(`tritonserver ended (${how}):\n${server.lastLines(8)}`, {
        hint: `its log is ${server.logFile}`,
      });
    });
    const loaded = this.load(server, models).catch(async (error: unknown) => {
      // The end of the server says more than a connection that was lost.
      await Promise.race([ended, sleep(END_IS_KNOWN_MS)]);
      throw error;
    });
    return Promise.race([loaded, ended]);
  }

  private async load(server: TritonServer, models: readonly WantedModel[]): Promise<Loaded> {
    await forEachLimited(
      models.filter(({ composedOf }) => composedOf.length === 0),
      AT_ONCE,
      ({ name }) => this.loadOne(server, name),
    );
    const failed: FailedModel[] = [];
    for (const { name, composedOf } of models.filter((model) => model.composedOf.length > 0)) {
      // Triton would load that model once more.
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
    return { models: tried, versions, failed };
  }

  private async loadOne(server: TritonServer, model: string): Promise<void> {
    // A thread of Triton's HTTP server that loads a model answers no other connection that it has accepted. So a load is
    // asked for when the one before has begun: its thread accepts no connection any more.
    const before = this.turn;
    let begun: () => void = () => undefined;
    this.turn = new Promise((resolve) => (begun = resolve));
    await before;
    this.waiting.set(model, begun);
    const client = replicaClient({ url: server.httpUrl, modelControlKey: server.modelControlKey });
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
      begun();
    }
  }

  private showProgress(): void {
    const loading = [...this.started.keys()].filter((name) => !this.milliseconds.has(name) && !this.errors.has(name));
    const now = loading.length === 0 ? '' : `, loading ${loading.join(', ')}`;
    this.onProgress(`${this.milliseconds.size} loaded${now}`);
  }
}

const stoppedAfter = (limitMs: number): string => `its load was stopped after ${limitMs / 1000} s (--load-timeout)`;
