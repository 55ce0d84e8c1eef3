import { randomBytes, timingSafeEqual } from 'node:crypto';
import { mkdirSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../core/errors';
import { formatBytes } from '../core/format';
import {
  AGENT_API,
  type AgentState,
  type TrialOutcome,
  type TrialRenewal,
  type TrialRequest,
} from '../release/agent-api';
import { FORMAT } from '../release/format';
import type { Head } from '../release/head';
import type { RepositoryLocation } from '../release/location';
import { sha256Hex, type Manifest } from '../release/manifest';
import type { S3Store } from '../s3/store';
import type { ModelControl } from '../triton/client';
import { Alarm } from './alarm';
import { ContentStore, unitsOfRelease, WrongBytesError } from './content-store';
import { ModelRepository } from './model-repository';
import { NoteFile } from './notes';
import { NO_RELEASE, Releases } from './releases';
import { hasClash, LoadRefusedError, ModelSwitcher } from './switch-models';
import { Trial } from './trial';

export interface AgentOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** The agent's disk: content store, model repository of Triton, notes. */
  directory: string;
  /** With the key of the model control API. */
  triton: ModelControl;
  /** For one model. */
  loadTimeoutMs: number;
  /** Time between two reads of head.json. */
  pollMs?: number;
  /** A pod waits up to this time before it follows a head.json that it did not try, so that not all pods switch at once. */
  spreadMs?: number;
  /** Time between two looks at Triton. */
  watchMs?: number;
  /** Time until a release that failed is tried again. */
  retryMs?: number;
  onEvent?: (event: AgentEvent) => void;
}

/** For the log: a line of JSON each. */
export interface AgentEvent {
  event: string;
  [field: string]: unknown;
}

/** An answer of the control API other than success. */
export class RequestRefusedError extends UserError {
  override readonly name = 'RequestRefusedError';
  constructor(
    /** HTTP status. */
    readonly status: number,
    message: string,
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

/** A state tag is accepted for this long. */
const TAG_MS = 15_000;
/** Parts of objects in flight. With 8 MiB each they take 64 MiB of memory. */
const PARTS = 8;

/**
 * Has one Triton serve the release that head.json names, or the release of a trial. test/spec/Publish.tla specifies when
 * it serves which.
 */
export class Agent {
  private readonly releases: Releases;
  private readonly content: ContentStore;
  private readonly repository: ModelRepository;
  private readonly noteFile: NoteFile;
  private readonly switcher: ModelSwitcher;
  private readonly started = performance.now();
  private readonly startMs: Record<string, number> = {};
  /** What Triton serves; `whole` unless a switch was not finished. */
  private served: { release: Manifest; whole: boolean } | undefined;
  private draining = false;
  private trial: Trial | undefined;
  private lastTrial: AgentState['lastTrial'] = null;
  private problem: string | undefined;
  /** A release that Triton refused, so that it is not tried again and again. */
  private refused: string | undefined;
  /** When this pod follows a head that it did not try, by Date.now(). */
  private followAt = 0;
  /** The release whose files are the only ones on this disk. */
  private tidied: string | undefined;
  private tag = newTag();
  private readonly alarm = new Alarm();

  constructor(private readonly options: AgentOptions) {
    const { directory, store, location, triton, loadTimeoutMs } = options;
    mkdirSync(join(directory, 'store'), { recursive: true });
    mkdirSync(join(directory, 'models'), { recursive: true });
    this.releases = new Releases(store, location, join(directory, 'releases'));
    this.content = new ContentStore(join(directory, 'store'));
    this.repository = new ModelRepository(join(directory, 'models'), this.content);
    this.noteFile = new NoteFile(join(directory, 'notes.json'));
    const { repository, noteFile: notes } = this;
    const onLoading = (model: string): void => {
      this.report({ event: 'load', model });
    };
    this.switcher = new ModelSwitcher({ triton, repository, notes, loadTimeoutMs, onLoading });
  }

  private get head(): Pick<Head, 'generation' | 'release' | 'manifestSha256'> | undefined {
    return this.noteFile.notes.head;
  }

  private get home(): string | undefined {
    return this.noteFile.notes.home;
  }

  /** Runs until the signal is aborted. Triton goes on serving after that. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.follow(signal), this.poll(signal)]);
  }

  // ------------------------------------------------------------------ the control API

  getState(): AgentState {
    const { head, trial, served } = this;
    return {
      api: AGENT_API,
      format: FORMAT,
      stateTag: `${this.tag}.${Math.floor(performance.now())}`,
      ready: this.isReady,
      release: served?.whole === true ? served.release.id : null,
      head: head === undefined ? null : { generation: head.generation, release: head.release },
      home: this.home ?? null,
      trial:
        trial === undefined
          ? null
          : {
              id: trial.id,
              release: trial.release,
              by: trial.by,
              leftSeconds: Math.floor(trial.leftMs / 1000),
              phase: trial.phase,
            },
      lastTrial: this.lastTrial,
      problem: this.problem ?? null,
      models: Object.entries(served?.release.models ?? {}).map(([name, model]) => ({ name, versions: model.served })),
      bytesOnDisk: served === undefined ? 0 : bytesOf(served.release),
      startMs: this.startMs,
    };
  }

  get isReady(): boolean {
    return this.served?.whole === true && !this.draining;
  }

  /**
   * Begins a trial, or finds that it has begun.
   * @throws RequestRefusedError
   */
  async beginTrial(request: TrialRequest): Promise<void> {
    if (this.trial?.id === request.id) return;
    const check = (): void => {
      if (this.served === undefined) throw new RequestRefusedError(503, 'this pod is starting');
      const [tag, given] = request.stateTag.split('.');
      if (tag !== this.tag || performance.now() - Number(given) > TAG_MS) {
        throw new RequestRefusedError(412, 'the state of this pod has changed: read it again');
      }
      const generation = this.head?.generation ?? 0;
      if (generation > request.base) {
        throw new RequestRefusedError(410, `head.json is at generation ${generation}, after ${request.base}`);
      }
      if (this.trial === undefined) return;
      const { id, by, leftMs } = this.trial;
      const leftSeconds = Math.ceil(leftMs / 1000);
      throw new RequestRefusedError(409, `${by} tries another release on this pod`, { id, by, leftSeconds });
    };
    check();
    const manifest = await this.readForTrial(request);
    check();
    this.requireSpace(manifest);
    this.trial = new Trial(request, manifest.trialKey);
    this.refused = undefined;
    this.changed({ event: 'trial', id: request.id, release: request.release, by: request.by });
  }

  private async readForTrial({ release, manifestSha256, base, secret }: TrialRequest): Promise<Manifest> {
    try {
      if ((this.head?.generation ?? 0) < base) await this.readHead();
      const manifest = await this.releases.read(release, manifestSha256);
      if (!isEqual(sha256Hex(secret), manifest.trialKey)) throw new RequestRefusedError(403, 'wrong secret');
      if ((this.head?.generation ?? 0) >= base) return manifest;
    } catch (error) {
      if (error instanceof RequestRefusedError) throw error;
      throw new RequestRefusedError(503, `cannot read the release: ${(error as Error).message}`);
    }
    throw new RequestRefusedError(503, `this pod does not see generation ${base} of head.json`);
  }

  private requireSpace(manifest: Manifest): void {
    const needed = this.content.missing(unitsOfRelease(manifest)).flatMap(({ files }) => files);
    const bytes = needed.reduce((sum, file) => sum + file.bytes, 0);
    const { bavail, bsize } = statfsSync(this.options.directory);
    const free = bavail * bsize;
    if (bytes <= free) return;
    throw new RequestRefusedError(
      507,
      `the release needs ${formatBytes(bytes)} on the disk of this pod, and ${formatBytes(free)} are free`,
      { bytes, free },
    );
  }

  /** @throws RequestRefusedError if no such trial runs */
  renewTrial(id: string, { secret, ttlSeconds }: TrialRenewal): void {
    const trial = this.getTrial(id, secret);
    if (trial === undefined) throw new RequestRefusedError(404, 'no such trial: it has ended');
    trial.renew(ttlSeconds);
  }

  /** Ends a trial. If the request that begins it is still under way, that request will be refused. */
  endTrial(id: string, secret: string): void {
    if (this.getTrial(id, secret) === undefined) this.changed({ event: 'tag' });
    else this.finishTrial('ended');
  }

  private getTrial(id: string, secret: string): Trial | undefined {
    const { trial } = this;
    if (trial?.id !== id) return undefined;
    if (isEqual(sha256Hex(secret), trial.trialKey)) return trial;
    throw new RequestRefusedError(403, 'wrong secret');
  }

  // ------------------------------------------------------------------ head.json and trials

  private async poll(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.readHead().catch((error: unknown) => {
        this.report({ event: 'head unreadable', reason: (error as Error).message });
      });
      await pause(this.options.pollMs ?? 10_000, signal);
    }
  }

  /** Reads head.json. An older generation than one that was read is ignored. */
  private async readHead(): Promise<void> {
    const { generation, release, manifestSha256 } = await this.releases.readHead();
    const { notes } = this.noteFile;
    if (notes.head !== undefined && generation <= notes.head.generation) return;
    notes.head = { generation, release, manifestSha256 };
    this.followAt = Date.now() + Math.random() * (this.options.spreadMs ?? 60_000);
    this.refused = undefined;
    if (this.served?.whole === true && this.served.release.id === release) notes.home = release;
    this.noteFile.save();
    const { trial } = this;
    if (trial?.release === release) this.finishTrial('released');
    else if (trial !== undefined && generation > trial.base) this.finishTrial('overtaken');
    this.changed({ event: 'head', generation, release });
  }

  private finishTrial(outcome: TrialOutcome, reason?: string): void {
    const { trial } = this;
    if (trial === undefined) return;
    this.trial = undefined;
    const { id, release } = trial;
    this.lastTrial = { id, release, outcome, ...(reason !== undefined && { reason }) };
    this.changed({ event: 'trial end', ...this.lastTrial });
    if (outcome !== 'released' && outcome !== 'overtaken') void this.readHead().catch(() => undefined);
  }

  /** A trial that was asked for before this must not begin any more. */
  private changed(event: AgentEvent): void {
    this.tag = newTag();
    this.report(event);
    this.alarm.ring();
  }

  // ------------------------------------------------------------------ what Triton serves

  private async follow(signal: AbortSignal): Promise<void> {
    await this.untilTritonAnswers(signal);
    while (!signal.aborted) {
      const isDone = await this.step(signal).catch((error: unknown) => {
        if (!signal.aborted) this.report({ event: 'failed', reason: (error as Error).message });
        return false;
      });
      if (!isDone) await this.alarm.wait(this.options.retryMs ?? 5000, signal);
    }
  }

  /** @returns false if something has to be tried again later */
  private async step(signal: AbortSignal): Promise<boolean> {
    if (this.trial?.leftMs === 0) this.finishTrial('expired');
    const target = this.getTarget();
    if (target !== undefined && (this.served?.whole !== true || this.served.release.id !== target)) {
      const early = this.followAt - Date.now();
      if (early <= 0 || !this.isUntried(target)) return this.moveTo(target, signal);
      await this.alarm.wait(early, signal);
      return true;
    }
    if (target === this.head?.release) this.problem = undefined;
    if (this.trial === undefined && target === this.home) await this.tidy();
    await this.alarm.wait(this.options.watchMs ?? 1000, signal);
    await this.checkTriton();
    return true;
  }

  /** Whether the release is a head that this pod did not try, while it serves another one. */
  private isUntried(id: string): boolean {
    return this.trial === undefined && id === this.head?.release && id !== this.home && this.served?.whole === true;
  }

  /** Id of the release that this pod should serve now; undefined if that is not known. */
  private getTarget(): string | undefined {
    const { trial, served, home, head } = this;
    if (trial !== undefined) return trial.release;
    const now = served?.release.id;
    // A trial has ended, or a switch has failed: first home, which needs no S3.
    if (home !== undefined && served !== undefined && (!served.whole || (now !== home && now !== head?.release))) {
      return home;
    }
    if (head === undefined || head.release === this.refused) return home;
    return head.release;
  }

  /** @returns whether Triton serves the release now */
  private async moveTo(id: string, signal: AbortSignal): Promise<boolean> {
    const { trial } = this;
    const mine = trial?.release === id ? trial : undefined;
    try {
      const release = await this.fetch(id, mine, signal);
      if (this.getTarget() !== id) return true;
      await this.switchTo(release, signal);
      if (mine !== undefined) mine.phase = 'served';
      this.problem = undefined;
      this.report({ event: 'served', release: id });
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      await this.fail(id, mine, error as Error);
      return false;
    }
  }

  /** Brings the files of a release to this disk. */
  private async fetch(id: string, trial: Trial | undefined, signal: AbortSignal): Promise<Manifest> {
    const sha256 = this.head?.release === id ? this.head.manifestSha256 : undefined;
    const release = await this.releases.read(id, trial?.manifestSha256 ?? sha256);
    const units = unitsOfRelease(release);
    const missing = this.content.missing(units);
    if (missing.length > 0) {
      this.requireSpace(release);
      const begun = performance.now();
      let bytes = 0;
      this.tidied = undefined;
      this.report({ event: 'download', release: id });
      await this.content.fill(units, {
        read: (file, part) => this.options.store.readPart(file.key, file.versionId, part),
        concurrency: PARTS,
        signal,
        onBytes: (more) => (bytes += more),
      });
      const ms = Math.round(performance.now() - begun);
      if (this.served === undefined) this.startMs['download'] = ms;
      this.report({ event: 'downloaded', release: id, bytes, ms });
    }
    if (trial !== undefined) trial.phase = 'loading';
    return release;
  }

  private async switchTo(release: Manifest, signal: AbortSignal): Promise<void> {
    const { served } = this;
    const begun = performance.now();
    this.draining = served !== undefined && hasClash(release, served.release);
    const from =
      served === undefined
        ? ({ kind: 'unknown' } as const)
        : ({ kind: served.whole ? 'release' : 'failed', release: served.release } as const);
    if (served !== undefined) this.served = { ...served, whole: false };
    try {
      await this.switcher.switch(release, from, signal);
    } finally {
      this.draining = false;
    }
    if (served === undefined) {
      this.startMs['load'] = Math.round(performance.now() - begun);
      this.startMs['total'] = Math.round(performance.now() - this.started);
    }
    this.served = { release, whole: true };
    // Not a release whose trial ended during the load.
    if (this.head?.release === release.id) this.noteFile.notes.home = release.id;
    this.noteFile.save();
  }

  private async fail(id: string, trial: Trial | undefined, error: Error): Promise<void> {
    this.problem = `cannot serve release ${id}: ${error.message}`;
    this.report({ event: 'failed', release: id, reason: error.message });
    if (error instanceof LoadRefusedError && id !== this.home) this.refused = id;
    // A manifest or an object may be gone because head.json has moved on.
    if (error instanceof WrongBytesError || isMissing(error)) await this.readHead().catch(() => undefined);
    if (trial !== undefined && this.trial === trial) this.finishTrial('refused', error.message);
    else if (this.served === undefined && this.home !== undefined && id !== this.home) await this.startFromHome(id);
  }

  /** A pod that starts and cannot fetch or load head serves home, if its files are complete. */
  private async startFromHome(head: string): Promise<void> {
    const release = this.home === undefined ? undefined : this.releases.onDisk(this.home);
    if (release === undefined || this.content.missing(unitsOfRelease(release)).length > 0) return;
    this.report({ event: 'home', release: release.id, instead: head });
    await this.switcher.switch(release, { kind: 'unknown' });
    this.served = { release, whole: true };
  }

  /** Deletes the files of releases that this pod neither serves nor returns to. */
  private async tidy(): Promise<void> {
    const { served } = this;
    if (served?.whole !== true) return;
    const kept = served.release.id;
    if (kept === this.tidied) return;
    this.releases.keep([kept]);
    await this.content.keep(unitsOfRelease(served.release));
    this.tidied = kept;
  }

  // ------------------------------------------------------------------ Triton

  private async untilTritonAnswers(signal: AbortSignal): Promise<void> {
    const answers = (): Promise<boolean> =>
      this.switcher.checkNotes().then(
        () => true,
        () => false,
      );
    while (!signal.aborted && !(await answers())) await pause(200, signal);
    this.startMs['triton'] = Math.round(performance.now() - this.started);
  }

  /** Notices that Triton has restarted, or that a model of it is gone. */
  private async checkTriton(): Promise<void> {
    if (this.served?.whole !== true) return;
    const lost = await this.switcher.checkNotes().catch(() => []);
    if (lost.length === 0) return;
    this.served = { ...this.served, whole: false };
    this.problem = `Triton no longer serves ${lost.join(', ')}`;
    this.changed({ event: 'lost', models: lost });
    if (this.trial !== undefined) this.finishTrial('refused', this.problem);
  }

  private report(event: AgentEvent): void {
    this.options.onEvent?.(event);
  }
}

const newTag = (): string => randomBytes(12).toString('hex');

const isMissing = (error: Error): boolean => error instanceof UserError && / does not exist/.test(error.message);

const bytesOf = (release: Manifest): number =>
  unitsOfRelease(release)
    .flatMap(({ files }) => files)
    .reduce((sum, { bytes }) => sum + bytes, 0);

function isEqual(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

export { NO_RELEASE };
