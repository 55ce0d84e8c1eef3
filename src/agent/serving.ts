import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../core/errors';
import type { ModelDevice } from '../release/agent-api';
import type { Manifest } from '../release/manifest';
import type { InferenceClient } from '../triton/client';
import { Deadline } from './deadline';
import { readDevices } from './devices';
import type { Report } from './events';
import { requestRestart } from './restart-request';
import { ServingFile } from './serving-file';
import { CHECK_MS, hasClash, LoadRefusedError, type ModelSwitcher, type SwitchFrom } from './switch-models';

export interface ServingOptions {
  switcher: ModelSwitcher;
  triton: Pick<InferenceClient, 'modelConfig' | 'repositoryIndex'>;
  /** The agent's folder, which Triton's start script watches. */
  directory: string;
  /** Time for Triton to end after a restart was requested. */
  restartMs: number;
  report: Report;
}

export interface SwitchOptions {
  signal: AbortSignal;
  /** Whether the pod returns to this release, because another one failed or its trial ended. */
  isReturn: boolean;
}

const POLL_MS = 200;
/** Longer than two checks without an answer take. */
const SILENT_MS = 2 * CHECK_MS;

/** What Triton serves: takes it from release to release, and notices if it loses models. */
export class Serving {
  /** The release that Triton serves; with `whole` false, parts of it and of another one. */
  private current: { release: Manifest; whole: boolean } | undefined;
  /** Device of each model. */
  devices: Readonly<Record<string, ModelDevice>> = {};
  /** Present if requests find every model: of the release, or during a switch of this or the other one. */
  private readonly file: ServingFile;
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
  async switchTo(release: Manifest, { signal, isReturn }: SwitchOptions): Promise<void> {
    const { current, attempted } = this;
    const { switcher, triton } = this.options;
    const drainSeconds = release.drainSeconds ?? (isReturn ? attempted?.drainSeconds : undefined);
    this.attempted = release;
    // Triton may have restarted since the last check.
    if ((await switcher.checkNotes()).length > 0) this.file.remove();
    const unloadFirst = drainSeconds !== undefined && switcher.replaces(release);
    const isClosed = unloadFirst || (current !== undefined && hasClash(release, current.release));
    if (current !== undefined) this.current = { ...current, whole: false };
    try {
      const isOpen = this.file.exists;
      if (isClosed) this.file.remove();
      else this.file.keepOnly(release.models);
      if (isOpen && unloadFirst) await this.drain(drainSeconds, signal);
      await switcher.switch(release, getStart(current), { signal, unloadFirst });
      const lost = await switcher.checkNotes();
      if (lost.length > 0) throw new UserError(`Triton restarted, or lost ${lost.join(', ')}, while it loaded models`);
      this.devices = await readDevices(release, triton);
      this.file.serve(Object.fromEntries(Object.entries(release.models).map(([name, { served }]) => [name, served])));
    } catch (error) {
      // Triton keeps a model if its load fails, unless it was unloaded before.
      if (!(error instanceof LoadRefusedError || signal.aborted)) this.file.remove();
      throw error;
    }
    this.current = { release, whole: true };
  }

  /** Lets open requests end, and those that arrive before every load balancer has noticed that the pod is not Ready. */
  private async drain(seconds: number, signal: AbortSignal): Promise<void> {
    this.options.report({ event: 'drain', seconds });
    await sleep(seconds * 1000, undefined, { signal });
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
