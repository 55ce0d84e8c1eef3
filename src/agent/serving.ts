import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../core/errors';
import type { ModelDevice } from '../release/agent-api';
import { NO_RELEASE } from '../release/head';
import type { Manifest } from '../release/manifest';
import type { InferenceClient } from '../triton/http';
import { Deadline } from './deadline';
import { readDevices } from './devices';
import type { Report } from './events';
import { requestRestart, ServingFile } from './pod-files';
import type { Trial } from './trial-desk';
import { CHECK_MS, hasClash, LoadRefusedError, type ModelSwitcher, type SwitchFrom } from './switch-models';

export interface ServingOptions {
  switcher: ModelSwitcher;
  triton: Pick<InferenceClient, 'modelConfig' | 'repositoryIndex'>;
  /** The agent's folder, which Triton's start script watches. */
  directory: string;
  /** Time for Triton to end after a restart was requested. */
  restartMs: number;
  /** Whether the repository has no release yet: only then a pod without models is Ready. */
  isNew: () => boolean;
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
/** Longer than two checks without an answer take. */
const SILENT_MS = 2 * CHECK_MS;

/** What Triton serves: takes it from release to release, and notices if it loses models. */
export class Serving {
  /** The release that Triton serves; with `whole` false, parts of it and of another one. */
  private current: { release: Manifest; whole: boolean } | undefined;
  devices: Readonly<Record<string, ModelDevice>> = {};
  /** Present if clients can request the models of the release, or during a switch those of both releases. */
  private readonly file: ServingFile;
  /** Whether no other replica got requests when a trial began last. */
  private alone = false;
  /** Whether models may be loaded that only the release before a trial has. */
  private surplus = false;
  /** The release of the last switch, whether it succeeded or not. */
  private attempted: Manifest | undefined;
  private answeredAt = performance.now();
  /** Whether Triton has not answered the checks for longer than SILENT_MS. */
  isSilent = false;

  constructor(private readonly options: ServingOptions) {
    this.file = new ServingFile(options.directory);
  }

  /** The release that Triton serves, or that it served before a switch that has not succeeded. */
  get release(): Manifest | undefined {
    return this.current?.release;
  }

  /** Whether Triton serves exactly the release. */
  get isWhole(): boolean {
    return this.current?.whole === true;
  }

  /** Whether the pod should get requests, if Triton answers. */
  get isReady(): boolean {
    return this.file.exists;
  }

  /** Time since Triton last answered a check. */
  get silentMs(): number {
    return performance.now() - this.answeredAt;
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
    // Triton may have restarted since the last check.
    if ((await switcher.checkNotes()).length > 0) this.file.remove();
    const unloadFirst = isUnloading && switcher.replaces(release);
    const isClosed =
      current !== undefined && (trial?.outside === true || unloadFirst || hasClash(release, current.release));
    if (isClosed) await this.leave(signal);
    else this.file.keepOnly(release.models);
    if (current !== undefined) this.current = { ...current, whole: false };
    this.surplus = keep !== undefined;
    try {
      await switcher.switch(release, getStart(current), { signal, unloadFirst, keep });
      const lost = await switcher.checkNotes();
      if (lost.length > 0) throw new UserError(`Triton restarted, or lost ${lost.join(', ')}, while it loaded models`);
      this.devices = await readDevices(release, triton);
    } catch (error) {
      // Triton keeps a model if its load fails, unless it was unloaded before.
      if (!(error instanceof LoadRefusedError || signal.aborted)) this.file.remove();
      throw error;
    }
    this.current = { release, whole: true };
  }

  /** Waits until no request arrives any more, if another replica gets them instead. */
  private async leave(signal: AbortSignal): Promise<void> {
    const { leaveMs, report } = this.options;
    const { isReady } = this;
    this.file.remove();
    if (this.alone || !isReady) return;
    report({ event: 'leave', seconds: leaveMs / 1000 });
    try {
      await sleep(leaveMs, undefined, { signal });
    } catch (error) {
      this.enter();
      throw error;
    }
  }

  /** Clients may request the release: it is not tried, or its models answered as they should. */
  enter(): void {
    if (this.current?.whole !== true) return;
    const { id, models } = this.current.release;
    if (id === NO_RELEASE && !this.options.isNew()) this.file.remove();
    else this.file.serve(Object.fromEntries(Object.entries(models).map(([name, { served }]) => [name, served])));
  }

  /** A pod without models gets no requests any more: there is a release. */
  closeIfEmpty(): void {
    if (this.current?.release.id === NO_RELEASE) this.file.remove();
  }

  /** Unloads the models that only the release before the served one has. */
  async removeOthers(): Promise<void> {
    if (!this.surplus) return;
    await this.options.switcher.unloadOthers(this.release);
    this.surplus = false;
  }

  /**
   * Asks Triton what it serves.
   * @returns models that it served and no longer serves, because it has restarted or a process of it ended
   */
  async check(): Promise<string[]> {
    const { current } = this;
    const lost = await this.options.switcher.findLost().catch(() => undefined);
    if (lost !== undefined) this.answeredAt = performance.now();
    this.isSilent = this.silentMs > SILENT_MS;
    if (lost === undefined) return [];
    // A switch that began or ended meanwhile checks for itself.
    if (lost.length === 0 || this.current !== current || current?.whole !== true) return [];
    this.options.switcher.noteLost(lost);
    this.current = { ...current, whole: false };
    this.file.remove();
    return lost;
  }

  /**
   * Has Triton restarted, after which it serves nothing. Returns when a server answers that has loaded nothing, or when
   * the same one still answers after `restartMs`.
   */
  async restart(signal: AbortSignal): Promise<void> {
    const { switcher, triton, directory, restartMs, report } = this.options;
    this.current = undefined;
    this.file.remove();
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
