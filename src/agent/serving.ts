import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../core/errors';
import type { ModelDevice } from '../release/agent-api';
import type { Manifest } from '../release/manifest';
import type { InferenceClient } from '../triton/client';
import { Deadline } from './deadline';
import { readDevices } from './devices';
import type { Report } from './events';
import { requestRestart } from './restart-request';
import type { Trial } from './trial';
import { CHECK_MS, hasClash, LoadRefusedError, type ModelSwitcher, type SwitchFrom } from './switch-models';

export interface ServingOptions {
  switcher: ModelSwitcher;
  triton: Pick<InferenceClient, 'modelConfig' | 'repositoryIndex'>;
  /** The agent's folder, which Triton's start script watches. */
  directory: string;
  /** Time for Triton to end after a restart was requested. */
  restartMs: number;
  /** Time from when the pod is not Ready any more until it gets no more requests. */
  leaveMs: number;
  report: Report;
}

export interface SwitchOptions {
  signal: AbortSignal;
  /** Whether the pod returns to this release, because another one failed or its trial ended. */
  isReturn: boolean;
  /** Set if the release is only tried: then models of `keep` stay loaded. */
  trial?: Pick<Trial, 'outside' | 'alone'> | undefined;
  keep?: Manifest | undefined;
}

const POLL_MS = 200;

/** What Triton serves: takes it from release to release, and notices if it loses models. */
export class Serving {
  /** The release that Triton serves; with `whole` false, parts of it and of another one. */
  private current: { release: Manifest; whole: boolean } | undefined;
  /** Device of each model. */
  devices: Readonly<Record<string, ModelDevice>> = {};
  /** Whether the pod has left the Service, until it serves a release that is not only tried, or that was accepted. */
  private outside = false;
  /** Whether no other replica got requests when a trial began last. */
  private alone = false;
  /** Whether models may be loaded that only the release before a trial has. */
  private surplus = false;
  /** Whether Triton may lack models of both the release and the one before. */
  private broken = false;
  /** The release of the last switch, whether it succeeded or not. */
  private attempted: Manifest | undefined;

  constructor(private readonly options: ServingOptions) {}

  /** The release that Triton serves, or that it served before a switch that has not succeeded. */
  get release(): Manifest | undefined {
    return this.current?.release;
  }

  /** Whether Triton serves exactly the release. */
  get isWhole(): boolean {
    return this.current?.whole === true;
  }

  /** Whether requests find every model: of the release, or during a switch of this or the other one. */
  get isReady(): boolean {
    return this.current !== undefined && !this.outside && !this.broken;
  }

  /**
   * Has Triton serve the release. Its files must be on this disk.
   * @throws LoadRefusedError, TritonError, UserError
   */
  async switchTo(release: Manifest, { signal, isReturn, trial, keep }: SwitchOptions): Promise<void> {
    const { current, attempted } = this;
    const { switcher, triton } = this.options;
    const isUnloading = release.unloadFirst === true || (isReturn && attempted?.unloadFirst === true);
    this.attempted = release;
    this.alone = trial?.alone ?? this.alone;
    // Triton may have restarted since the last look.
    await switcher.checkNotes();
    const unloadFirst = isUnloading && switcher.replaces(release);
    const isClosed =
      current !== undefined && (trial?.outside === true || unloadFirst || hasClash(release, current.release));
    if (isClosed) await this.leave(signal);
    if (current !== undefined) this.current = { ...current, whole: false };
    this.surplus = keep !== undefined;
    try {
      await switcher.switch(release, getStart(current), { signal, unloadFirst, keep });
      const lost = await switcher.checkNotes();
      if (lost.length > 0) throw new UserError(`Triton restarted, or lost ${lost.join(', ')}, while it loaded models`);
      this.devices = await readDevices(release, triton);
    } catch (error) {
      // Triton keeps a model if its load fails, unless it was unloaded before.
      if (isClosed || !(error instanceof LoadRefusedError || signal.aborted)) this.broken = true;
      throw error;
    }
    this.current = { release, whole: true };
    this.broken = false;
    if (trial === undefined) this.outside = false;
  }

  /** Waits until no request arrives any more, if another replica gets them instead. */
  private async leave(signal: AbortSignal): Promise<void> {
    const { leaveMs, report } = this.options;
    const { isReady } = this;
    this.outside = true;
    if (this.alone || !isReady) return;
    report({ event: 'leave', seconds: leaveMs / 1000 });
    try {
      await sleep(leaveMs, undefined, { signal });
    } catch (error) {
      this.outside = false;
      throw error;
    }
  }

  /** The release may get requests: it is not tried, or its models answered as they should. */
  enter(): void {
    this.outside = false;
  }

  /** Unloads the models that only the release before the served one has. */
  async removeOthers(): Promise<void> {
    if (!this.surplus) return;
    await this.options.switcher.unloadOthers(this.release);
    this.surplus = false;
  }

  /** @returns models that Triton served and no longer serves, because it has restarted or a process of it ended */
  async check(): Promise<string[]> {
    if (this.current?.whole !== true) return [];
    const lost = await this.options.switcher.checkNotes().catch(() => []);
    if (lost.length === 0) return lost;
    this.current = { ...this.current, whole: false };
    this.broken = true;
    return lost;
  }

  /** Whether requests find every model now: Triton may have restarted since the last check. Changes nothing. */
  async isServing(): Promise<boolean> {
    const lost = this.isReady ? await this.options.switcher.findLost().catch(() => undefined) : undefined;
    return this.isReady && lost?.length === 0;
  }

  /**
   * Has Triton restarted, after which it serves nothing. Returns when a server answers that has loaded nothing, or when
   * the same one still answers after `restartMs`.
   */
  async restart(signal: AbortSignal): Promise<void> {
    const { switcher, triton, directory, restartMs, report } = this.options;
    this.current = undefined;
    report({ event: 'restart of Triton requested' });
    requestRestart(directory);
    const deadline = new Deadline(restartMs);
    while (!signal.aborted) {
      const index = await triton.repositoryIndex({ timeoutMs: CHECK_MS }).catch(() => undefined);
      // An answer does not show which server it is from: one may end and another one start between two calls.
      if (index?.every(({ version }) => version === '') === true) break;
      if (index !== undefined && deadline.leftMs === 0) {
        report({ event: 'Triton was not restarted', withinMs: restartMs });
        break;
      }
      await sleep(POLL_MS);
    }
    switcher.forgetLoads();
  }
}

function getStart(current: { release: Manifest; whole: boolean } | undefined): SwitchFrom {
  if (current === undefined) return { kind: 'unknown' };
  return { kind: current.whole ? 'release' : 'failed', release: current.release };
}
