import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../core/errors';
import {
  AGENT_API,
  type AgentState,
  type AgentStatistics,
  type ServedModelState,
  type StartPhase,
  type TrialRenewal,
  type TrialRequest,
} from '../release/agent-api';
import { FORMAT } from '../release/format';
import { NO_RELEASE, type Head } from '../release/head';
import { formatLocation, type RepositoryLocation } from '../release/location';
import { askModel, readGoldenRequests } from '../release/ask';
import type { Manifest, ManifestModel } from '../release/manifest';
import type { S3Store } from '../s3/store';
import { TritonError, type ClientOptions } from '../triton/client';
import type { InferenceClient } from '../triton/http';
import { Alarm } from './alarm';
import { getModelsToAsk, type AskedModels } from './ask-models';
import { WrongBytesError } from './content-store';
import { Deadline } from './deadline';
import { requireGpus, requireTarget } from './devices';
import { Downloads } from './downloads';
import type { AgentEvent } from './events';
import type { AgentCounts } from './metrics';
import { ModelRepository } from './model-repository';
import { NoteFile, withoutPrototype } from './notes';
import { Serving } from './serving';
import { SpareSpace } from './pod-files';
import { CHECK_MS, LoadRefusedError, ModelSwitcher, type ModelServer } from './switch-models';
import { TrialDesk, type Trial } from './trial-desk';

export type AgentTriton = ModelServer & Pick<InferenceClient, 'modelConfig' | 'infer' | 'statistics'>;

export interface AgentOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** The agent's disk: content store, model repository of Triton, notes. */
  directory: string;
  /** Most bytes that the files of releases may take. */
  diskBytes?: number | undefined;
  /** With the key of the model control API. */
  triton: AgentTriton;
  /** For one model. */
  loadTimeoutMs: number;
  /** GPUs that the pod should have. A trial fails if Triton serves a model on the CPU instead. */
  gpus?: number;
  /** What the pod runs compiled models with. Undefined: not known. */
  target?: string | undefined;
  /** Time between two reads of head.json. */
  pollMs?: number;
  /** A pod waits up to this time before it follows a head.json that it did not try, so that not all pods switch at once. */
  spreadMs?: number;
  /** Time between two checks of Triton. */
  watchMs?: number;
  /** Time until a release that failed is tried again. */
  retryMs?: number;
  /** Time for Triton to end after a restart was requested. */
  restartMs?: number;
  /** Time from when the pod is not Ready any more until it gets no more requests. */
  leaveMs?: number;
  onEvent?: (event: AgentEvent) => void;
}

/**
 * Has one Triton serve the release that head.json names, or the release of a trial. test/proof/Publish.tla specifies when
 * it serves which.
 */
export class Agent {
  private readonly downloads: Downloads;
  private readonly noteFile: NoteFile;
  private readonly switcher: ModelSwitcher;
  private readonly serving: Serving;
  private readonly desk: TrialDesk;
  private readonly spare: SpareSpace;
  /** Something has changed: what Triton should serve is decided again, and head.json is read again. */
  private readonly alarm = new Alarm();
  private readonly pollAlarm = new Alarm();
  private readonly started = performance.now();
  private readonly startMs: AgentState['startMs'] = {};
  private readonly loads = { ok: 0, refused: 0 };
  private headReadAt: number | undefined;
  private readonly startedAt = Date.now();
  private problem: string | undefined;
  private asked: AskedModels = withoutPrototype({});
  /** A release that failed in Triton, and until when it is not loaded again. */
  private refused: { id: string; until: Deadline; pauseMs: number } | undefined;
  /** When this pod follows a head that it did not try. */
  private followAt = new Deadline(0);

  constructor(private readonly options: AgentOptions) {
    const { directory, diskBytes, store, location, triton, loadTimeoutMs } = options;
    const { restartMs = 60_000, leaveMs = 20_000 } = options;
    const report = (event: AgentEvent): void => this.report(event);
    mkdirSync(join(directory, 'models'), { recursive: true });
    this.downloads = new Downloads({ store, location, directory, diskBytes, report });
    this.spare = new SpareSpace(directory);
    this.noteFile = new NoteFile(join(directory, 'notes.json'), formatLocation(location));
    this.switcher = new ModelSwitcher({
      triton,
      repository: new ModelRepository(join(directory, 'models'), this.downloads.content),
      notes: this.noteFile,
      loadTimeoutMs,
      onLoading: (model) => report({ event: 'load', model }),
      onLoaded: (_, isLoaded) => (this.loads[isLoaded ? 'ok' : 'refused'] += 1),
    });
    const isNew = (): boolean => this.head?.generation === 0;
    this.serving = new Serving({ switcher: this.switcher, triton, directory, restartMs, isNew, leaveMs, report });
    this.desk = new TrialDesk({
      isStarted: () => this.startMs.triton !== undefined,
      generation: () => this.head?.generation ?? 0,
      readManifest: async ({ base, release, manifestSha256 }) => {
        if ((this.head?.generation ?? 0) < base) await this.readHead();
        return this.downloads.releases.read(release, manifestSha256);
      },
      requireSpace: (manifest) => this.downloads.requireSpace(manifest),
      onChange: (event) => {
        report(event);
        this.alarm.ring();
        this.pollAlarm.ring();
      },
    });
  }

  private get head(): Pick<Head, 'generation' | 'release' | 'manifestSha256'> | undefined {
    return this.noteFile.notes.head;
  }

  /** The release that this pod returns to after a trial: maybe the one without models. */
  private get home(): string {
    return this.noteFile.notes.home ?? NO_RELEASE;
  }

  private getHome(): Manifest | undefined {
    return this.downloads.releases.onDisk(this.home);
  }

  /** Runs until the signal is aborted. Triton goes on serving after that. */
  async run(signal: AbortSignal): Promise<void> {
    const { problem } = this.noteFile;
    if (problem !== undefined) this.report({ event: 'notes lost', reason: problem });
    await Promise.all([this.follow(signal), this.poll(signal), this.watchTrial(signal), this.watchTriton(signal)]);
  }

  getState(): AgentState {
    const { head, serving, desk, asked } = this;
    const { current: trial } = desk;
    const { silentMs, isSilent } = serving;
    return {
      api: AGENT_API,
      format: FORMAT,
      repository: formatLocation(this.options.location),
      target: this.options.target,
      stateTag: desk.stateTag,
      ready: serving.isReady && !isSilent,
      release: serving.isWhole && !isSilent ? (serving.release?.id ?? null) : null,
      head: head === undefined ? null : { generation: head.generation, release: head.release },
      home: this.noteFile.notes.home ?? null,
      trial:
        trial === undefined
          ? null
          : {
              id: trial.id,
              release: trial.release,
              by: trial.by,
              leftSeconds: trial.lease.leftMs / 1000,
              phase: trial.phase,
              asking: trial.asking,
              note: trial.note,
            },
      lastTrial: desk.last,
      problem: isSilent ? `Triton has not answered for ${Math.round(silentMs / 1000)} s` : (this.problem ?? null),
      tritonAnsweredSecondsAgo: Math.round(silentMs / 1000),
      models: Object.entries(serving.release?.models ?? {}).map(([name, { served }]): ServedModelState => ({
        name,
        versions: served,
        device: serving.devices[name] ?? null,
        asked: asked[name] ?? null,
      })),
      bytesOnDisk: this.downloads.bytesOnDisk,
      startMs: this.startMs,
    };
  }

  /** What Triton has answered since it loaded its models. The release is null if it changed meanwhile. */
  async getStatistics(): Promise<AgentStatistics> {
    const { release } = this.getState();
    const statistics = await this.options.triton.statistics({ timeoutMs: CHECK_MS });
    const state = this.getState();
    return {
      ...state,
      release: state.release === release ? release : null,
      statistics: statistics.map(({ name, version, inference_stats: { success, fail } }) => ({
        ...{ name, version, answered: success.count, failed: fail.count, nanoseconds: success.ns },
      })),
    };
  }

  /** For metrics. */
  getCounts(): AgentCounts {
    return { downloads: this.downloads.total, loads: this.loads, headReadAt: this.headReadAt ?? this.startedAt };
  }

  /** @throws RequestRefusedError */
  beginTrial(request: TrialRequest): Promise<void> {
    return this.desk.begin(request).then(() => (this.refused = undefined));
  }

  /** @throws RequestRefusedError */
  renewTrial(id: string, renewal: TrialRenewal): void {
    this.desk.renew(id, renewal);
    if (renewal.committed === true) this.pollAlarm.ring();
  }

  /** @throws RequestRefusedError */
  endTrial(id: string, secret: string): void {
    this.desk.end(id, secret);
  }

  private async poll(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.readHead().catch((error: unknown) => {
        const reason = (error as Error).message;
        this.report({ event: 'head unreadable', reason, hint: error instanceof UserError ? error.hint : undefined });
        if (this.serving.release === undefined) this.problem = reason;
      });
      await this.pollAlarm.wait(this.options.pollMs ?? 10_000, signal);
    }
  }

  private async watchTrial(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.desk.endIfExpired();
      await pause(this.options.watchMs ?? 1000, signal);
    }
  }

  /** Reads head.json. An older generation than one that was read is ignored. */
  private async readHead(): Promise<void> {
    const { generation, release, manifestSha256 } = await this.downloads.releases.readHead();
    if (this.head === undefined || generation > this.head.generation) {
      this.takeHead({ generation, release, manifestSha256 });
    }
    this.headReadAt = Date.now();
  }

  /** @throws if it cannot be noted on the disk */
  private takeHead(head: Pick<Head, 'generation' | 'release' | 'manifestSha256'>): void {
    const { generation, release } = head;
    const { notes } = this.noteFile;
    const before = notes.head;
    notes.head = head;
    this.followAt = new Deadline(Math.random() * (this.options.spreadMs ?? 60_000));
    this.refused = undefined;
    if (this.serving.isWhole && this.serving.release?.id === release) this.setHome(release);
    try {
      this.noteFile.save();
    } catch (error) {
      notes.head = before; // Read again later.
      throw error;
    }
    if (generation > 0) this.serving.closeIfEmpty();
    const { current: trial } = this.desk;
    if (trial?.release === release) this.desk.finish('released');
    else if (trial !== undefined && generation > trial.base) this.desk.finish('overtaken');
    this.desk.changed({ event: 'head', generation, release });
  }

  private setHome(release: string): void {
    Object.assign(this.noteFile.notes, { home: release, asked: this.asked });
  }

  private async follow(signal: AbortSignal): Promise<void> {
    const waiting = new AbortController();
    const early = this.fetchEarly(AbortSignal.any([signal, waiting.signal]));
    await this.untilTritonAnswers(signal);
    // If S3 has not answered, the pod serves home at once.
    if (this.headReadAt === undefined) waiting.abort();
    else await early;
    while (!signal.aborted) {
      const isDone = await this.step(signal).catch((error: unknown) => {
        this.spare.freeAfter(error);
        if (!signal.aborted) this.report({ event: 'failed', reason: (error as Error).message });
        return false;
      });
      if (!isDone) await this.alarm.wait(this.options.retryMs ?? 5000, signal);
    }
  }

  /** @returns false if something has to be tried again later */
  private async step(signal: AbortSignal): Promise<boolean> {
    const { serving } = this;
    this.desk.endIfExpired();
    const target = this.getTarget();
    if (target !== undefined && (!serving.isWhole || serving.release?.id !== target)) {
      const early = this.followAt.leftMs;
      if (early === 0 || !this.isUntried(target)) return this.moveTo(target, signal);
      await this.alarm.wait(early, signal);
      return true;
    }
    if (target !== undefined && target === this.head?.release) this.problem = undefined;
    if (serving.isWhole && serving.release !== undefined && this.desk.current === undefined && target !== undefined) {
      serving.enter();
      // The models and files of other releases are not needed any more.
      if (target === this.noteFile.notes.home) {
        await serving.removeOthers();
        await this.downloads.keepOnly(serving.release);
        this.spare.keep();
      }
    }
    await this.alarm.wait(this.options.watchMs ?? 1000, signal);
    return true;
  }

  /** Whether the release is a head that this pod did not try, while it serves another one. */
  private isUntried(id: string): boolean {
    const { isWhole, release } = this.serving;
    const isOther = id === this.head?.release && id !== this.home;
    return isOther && this.desk.current === undefined && isWhole && release?.id !== NO_RELEASE;
  }

  /** Id of the release that this pod should serve now; undefined if that is not known. */
  private getTarget(): string | undefined {
    const { serving, home, head } = this;
    const { current: trial } = this.desk;
    if (trial !== undefined) return trial.release;
    const now = serving.release?.id;
    // A trial has ended, or a switch has failed: first home, which needs no S3.
    if (now !== undefined && (!serving.isWhole || (now !== home && now !== head?.release))) return home;
    if (head === undefined) return this.noteFile.notes.home;
    return head.release === this.refused?.id && this.refused.until.leftMs > 0 ? home : head.release;
  }

  /** @returns whether Triton serves the release now */
  private async moveTo(id: string, signal: AbortSignal): Promise<boolean> {
    const { current } = this.desk;
    const trial = current?.release === id ? current : undefined;
    const until = trial === undefined ? signal : AbortSignal.any([signal, trial.stopping.signal]);
    let release: Manifest | undefined;
    try {
      release = await this.fetch(id, trial, until);
      if (this.getTarget() !== id) return true;
      if (trial === undefined) await this.serve(release, until);
      else await this.tryRelease(release, trial, until);
      if (id === this.head?.release) this.problem = undefined;
      this.report({ event: 'served', release: id });
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (until.aborted) return true;
      if (release !== undefined && error instanceof LoadRefusedError) {
        const damaged = await this.downloads.deleteDamaged(release);
        if (damaged.length > 0) {
          this.report({ event: 'damaged', release: id, files: damaged });
          return false; // Downloaded again, and tried again.
        }
      }
      await this.fail(id, trial, error as Error, signal);
      return false;
    }
  }

  private async fetch(id: string, trial: Trial | undefined, signal: AbortSignal): Promise<Manifest> {
    const begun = performance.now();
    const sha256 = this.head?.release === id ? this.head.manifestSha256 : undefined;
    const release = await this.downloads.fetch(id, trial?.manifestSha256 ?? sha256, signal);
    this.noteStart('download', begun);
    return release;
  }

  /** Serves the release of a trial, and asks its models. */
  private async tryRelease(release: Manifest, trial: Trial, signal: AbortSignal): Promise<void> {
    const { store, triton, gpus = 0 } = this.options;
    const before = this.noteFile.notes.asked;
    const names = trial.ask !== false ? getModelsToAsk(release, this.getHome()) : [];
    // Before models are loaded, so that a missing object changes nothing.
    const golden = new Map(
      await Promise.all(
        names.map(async (name) => [name, await readGoldenRequests(name, release.models[name]?.golden, store)] as const),
      ),
    );
    trial.phase = 'loading';
    await this.switchTo(release, signal, trial);
    requireGpus(release, this.serving.devices, gpus);
    trial.phase = 'asking';
    const answers: AskedModels = {};
    for (const [name, requests] of golden) {
      trial.asking = name;
      const { served } = release.models[name] as ManifestModel;
      const options = { zerosWereAnswered: before[name] === 'zeros', signal };
      const { asked, text: result, hint } = await askModel(triton, { name, served }, requests, options);
      answers[name] = asked;
      this.report({ event: 'asked', model: name, result, hint });
    }
    trial.asking = undefined;
    this.asked = withoutPrototype({ ...this.asked, ...answers });
    trial.phase = 'served';
    this.serving.enter();
  }

  private async serve(release: Manifest, signal: AbortSignal): Promise<void> {
    await this.switchTo(release, signal);
    this.serving.enter();
  }

  private async switchTo(release: Manifest, signal: AbortSignal, trial?: Trial): Promise<void> {
    const begun = performance.now();
    requireTarget(release, this.options.target);
    const keep = trial && this.getHome();
    await this.serving.switchTo(release, { signal, isReturn: release.id === this.home, trial, keep });
    if (release.id !== NO_RELEASE) {
      this.noteStart('load', begun);
      this.noteStart('total', this.started);
    }
    const changed = getModelsToAsk(release, this.getHome());
    this.asked = withoutPrototype(
      Object.fromEntries(
        Object.entries(this.noteFile.notes.asked).filter(
          ([name]) => Object.hasOwn(release.models, name) && !changed.includes(name),
        ),
      ),
    );
    // Not a release whose trial ended during the load.
    if (this.head?.release === release.id) this.setHome(release.id);
    this.noteFile.save();
  }

  private async fail(id: string, trial: Trial | undefined, error: Error, signal: AbortSignal): Promise<void> {
    this.spare.freeAfter(error);
    this.problem = `cannot serve release ${id}: ${error.message}`;
    this.report({ event: 'failed', release: id, reason: error.message });
    if (id !== this.home) this.refuse(id, error);
    // A manifest or an object may be gone because head.json has moved on.
    if (isOfDownload(error)) await this.readHead().catch(() => undefined);
    if (id === this.home && id !== this.head?.release && isOfDownload(error)) {
      // Home is damaged on this disk, and S3 is not asked for it, because its manifest cannot be verified any more.
      this.noteFile.notes.home = undefined;
      this.noteFile.save();
    }
    if (trial !== undefined) {
      if (this.desk.current === trial) this.desk.finish('refused', error);
    } else if (id === this.home && this.serving.release !== undefined && needsRestart(error)) {
      await this.serving.restart(signal);
    } else if (this.serving.release === undefined && id !== this.home) await this.startFromHome(id, signal);
  }

  /** A release that Triton refuses is not loaded again; one that ends Triton, after pauses of 10 s to 10 min. */
  private refuse(id: string, error: Error): void {
    const { serving, refused } = this;
    const isRefusal = error instanceof LoadRefusedError;
    if (!isRefusal && (serving.release === undefined || serving.isWhole)) return; // It failed before it reached Triton.
    const { retryMs = 5000 } = this.options;
    const pauseMs = refused?.id === id ? Math.min(2 * refused.pauseMs, 120 * retryMs) : 2 * retryMs;
    this.refused = { id, until: new Deadline(isRefusal ? Infinity : pauseMs), pauseMs };
  }

  /** A pod that starts and cannot fetch or load head serves home, if its files are complete. */
  private async startFromHome(head: string, signal: AbortSignal): Promise<void> {
    const release = this.getHome();
    if (release === undefined || release.id === NO_RELEASE || !this.downloads.isComplete(release)) return;
    this.report({ event: 'home', release: release.id, instead: head });
    await this.serve(release, signal);
  }

  private async untilTritonAnswers(signal: AbortSignal): Promise<void> {
    const answers = (): Promise<boolean> =>
      this.switcher.checkNotes().then(
        () => true,
        () => false,
      );
    while (!signal.aborted && !(await answers())) await pause(200, signal);
    this.noteStart('triton', this.started);
  }

  private async watchTriton(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.reportLost(await this.serving.check());
      await pause(this.options.watchMs ?? 1000, signal);
    }
  }

  private reportLost(lost: readonly string[]): void {
    if (lost.length === 0) return;
    const message = `Triton no longer serves ${lost.join(', ')}: it has restarted, or a process of a model has ended`;
    this.problem = message;
    this.desk.changed({ event: 'lost', models: lost });
    this.desk.finish('refused', { message, hint: 'read the log of Triton' });
  }

  /** Fetches the release of head.json while the image of Triton is pulled. What fails here is tried again later. */
  private async fetchEarly(signal: AbortSignal): Promise<void> {
    try {
      await this.readHead();
      if (this.head !== undefined && !signal.aborted) await this.fetch(this.head.release, undefined, signal);
    } catch (error) {
      if (!signal.aborted) this.report({ event: 'not fetched', reason: (error as Error).message });
    }
  }

  private noteStart(phase: StartPhase, begun: number): void {
    this.startMs[phase] ??= Math.round(performance.now() - begun);
  }

  private report(event: AgentEvent): void {
    this.options.onEvent?.(event);
  }
}

export const CLIENT_OPTIONS: ClientOptions = {
  // A model's answer must not end the agent, which compares two of them within the memory of its container.
  mostAnswerBytes: 64e6,
};

/** Whether a model of home could not be loaded, as if a failed load had left too little memory. */
const needsRestart = (error: Error): boolean =>
  error instanceof LoadRefusedError || (error instanceof TritonError && error.status === 'timeout');

/** Whether an object is gone, or is not what was published. */
const isOfDownload = (error: Error): boolean =>
  error instanceof WrongBytesError || (error instanceof UserError && / does not exist/.test(error.message));

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
