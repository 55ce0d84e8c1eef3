import type { AgentEvent } from '../../../src/agent/events';
import { getUnits } from '../../../src/agent/content-store';
import type { AgentState } from '../../../src/release/agent-api';
import { NO_RELEASE, parseHead, type Head } from '../../../src/release/head';
import { headKey, releasesPrefix, type RepositoryLocation } from '../../../src/release/location';
import { parseManifest, type Manifest } from '../../../src/release/manifest';
import type { RuleTriton } from '../rule-triton';
import type { MemoryBucket } from '../memory-store';
import { hashText, type Clock } from './clock';
import type { Pod } from './pod';
import type { SimulatedStore } from './simulated-store';
import type { TraceRecorder } from './trace-recorder';

/** One publish, and how it ended: the exit code of the command, or 9 if it was killed. */
export interface Run {
  by: string;
  release: string | undefined;
  code: 0 | 1 | 3 | 9 | undefined;
  reason: string;
  /** Time of the end. */
  at: number;
  /** Unique names of the pods that it asked, as far as they are there at the end. */
  pods: string[];
}

/** What the checks remember of a pod. */
interface History {
  /** Faults excuse that a version is loaded again. */
  isDisturbed: boolean;
  /** Release of the trial that runs. */
  trial: string | undefined;
  /** When a trial of a release was last seen. */
  tried: Map<string, number>;
  /** Highest generation that home had. */
  home: number;
  /** Since when the pod serves a release that it should not serve, or nothing. */
  strayedSince: number | undefined;
  unreadySince: number | undefined;
}

/** A pod that is up does not stay longer than this in a state that it should leave. */
const PATIENCE_MS = 100_000;
/** Time that the last look at all pods before a commit takes. */
const LAST_LOOK_MS = 50_000;

type Loaded = ReturnType<RuleTriton['models']['get']>;

/** The invariants of docs/publishing.md, for everything that pods report and that publishers end with. */
export class Checks {
  readonly wrong: string[] = [];
  readonly runs: Run[] = [];
  /** Of all that happened to pods. */
  hash = 0;
  /** Records the run, for test/proof/Trace.tla. */
  recorder: TraceRecorder | undefined;
  private readonly heads: Head[] = [];
  private readonly manifests = new Map<string, Manifest>();
  private readonly histories = new Map<string, History>();
  private readonly manifestKey: RegExp;

  constructor(
    private readonly clock: Clock,
    private readonly bucket: MemoryBucket,
    private readonly location: RepositoryLocation,
  ) {
    this.manifestKey = new RegExp(`^${releasesPrefix(location)}/(2[^/]*)\\.json$`);
    bucket.onWrite = (key, body): void => {
      const id = this.manifestKey.exec(key)?.[1];
      if (key === headKey(location)) this.onHead(parseHead(body, key));
      else if (id !== undefined) this.onManifest(parseManifest(body, key));
    };
  }

  report(text: string): void {
    this.wrong.push(text);
  }

  add(pod: Pod): void {
    this.histories.set(pod.uid, {
      isDisturbed: false,
      trial: undefined,
      tried: new Map(),
      home: 0,
      strayedSince: undefined,
      unreadySince: undefined,
    });
  }

  disturb(pod: Pod): void {
    this.of(pod).isDisturbed = true;
  }

  servesHead({ state }: Pod): boolean {
    return state?.ready === true && state.release === this.heads.at(-1)?.release && state.trial === null;
  }

  // ------------------------------------------------------------------ head.json and publishers

  private onManifest(manifest: Manifest): void {
    this.manifests.set(manifest.id, manifest);
    const run = this.runs.find(({ release }) => release === manifest.id);
    if (run !== undefined) this.recorder?.onManifest(run.by, manifest);
  }

  private onHead(head: Head): void {
    this.recorder?.onHead(head);
    const before = this.heads.at(-1);
    this.heads.push(head);
    if (before === undefined) return;
    if (head.generation !== before.generation + 1)
      this.report(`head.json went from generation ${before.generation} to ${head.generation}`);
    if (head.release !== before.release && this.manifests.get(head.release)?.previous !== before.release) {
      this.report(`${head.release} replaced ${before.release}, which it was not built on`);
    }
    for (const { release, by, code } of this.runs) {
      if (release === head.release && code === 1) this.report(`${by} ended with 1, and its release became head later`);
    }
  }

  /** Sees what a publisher sends. */
  watchPublisher(run: Run, store: SimulatedStore, pods: () => readonly Pod[]): void {
    const put = store.putBytes.bind(store);
    let isSent = false;
    store.putBytes = (key, ...rest): ReturnType<typeof put> => {
      run.release = this.manifestKey.exec(key)?.[1] ?? run.release;
      if (key === headKey(this.location) && !isSent) {
        for (const pod of pods()) this.checkCommit(run, pod);
        this.recorder?.onCommit(run.by);
        isSent = true;
      }
      return put(key, ...rest);
    };
  }

  /** When a commit is sent, each pod that is up serves the release under a trial. */
  private checkCommit({ by, release }: Run, pod: Pod): void {
    const { now } = this.clock;
    if (release === undefined || !pod.isUpFor(LAST_LOOK_MS) || now - pod.since < LAST_LOOK_MS) return;
    const { trial, tried } = this.of(pod);
    if (trial === release) return;
    const last = tried.get(release);
    if (last === undefined) this.report(`${by} sends its commit although ${pod.uid} did not try the release`);
    else if (now - last > LAST_LOOK_MS) this.report(`${by} sends its commit long after the trial on ${pod.uid}`);
  }

  onEnd(run: Run, code: 0 | 1 | 3, reason: string, pods: readonly Pod[]): void {
    const asked = pods.filter((pod) => this.of(pod).tried.has(run.release ?? ''));
    Object.assign(run, { code, reason, at: this.clock.now, pods: asked.map(({ uid }) => uid) });
    const wasHead = this.wasHead(run.release);
    // Without a release of its own there was nothing to publish.
    if (code === 0 && run.release !== undefined && !wasHead) {
      this.report(`${run.by} ended with 0, and its release never was head`);
    }
    if (code === 1 && wasHead) this.report(`${run.by} ended with 1, and its release was head`);
    for (const pod of pods) this.check(pod);
    this.recorder?.onEnd(run.by, code);
    const other = /refuses: (\S+) tries another release/.exec(reason)?.[1];
    const answer = this.runs.find(({ by }) => by === other);
    if (answer?.reason.includes(`refuses: ${run.by} tries another release`) === true) {
      this.report(`${run.by} and ${answer.by} ended because of each other`);
    }
  }

  private wasHead(release: string | undefined): boolean {
    return this.heads.some((head) => head.release === release);
  }

  // ------------------------------------------------------------------ pods

  private of(pod: Pod): History {
    return this.histories.get(pod.uid) as History;
  }

  onEvent(pod: Pod, event: AgentEvent): void {
    this.recorder?.onEvent(pod, event);
    const history = this.of(pod);
    this.hash = hashText(`${pod.uid} ${event.event}`, this.hash);
    if (event.event === 'trial') {
      if (history.trial !== undefined) this.report(`${pod.uid} began a trial during another one`);
      history.trial = String(event['release']);
      history.tried.set(history.trial, this.clock.now);
    } else if (event.event === 'trial end') {
      this.endTrial(history);
      // To remove the labels, the agent gave versions a later time, which it cannot take back.
      if (event['outcome'] === 'refused' && this.removesLabels(pod, String(event['release']))) this.disturb(pod);
    }
    this.check(pod);
  }

  private removesLabels(pod: Pod, release: string): boolean {
    const models = this.manifests.get(release)?.models ?? {};
    return Object.entries(models).some(
      ([name, { files }]) =>
        pod.triton.models.get(name)?.labels !== undefined && !files.some(({ path }) => path === 'labels.txt'),
    );
  }

  onDeath(pod: Pod): void {
    const history = this.of(pod);
    history.isDisturbed = true;
    this.endTrial(history);
    this.recorder?.onPod('restart', pod);
  }

  private endTrial(history: History): void {
    if (history.trial !== undefined) history.tried.set(history.trial, this.clock.now);
    history.trial = undefined;
  }

  /** A version whose bytes and labels did not change is not loaded again. */
  onLoad(pod: Pod, model: string, before: Loaded): void {
    this.hash = hashText(`${pod.uid} loads ${model}`, this.hash);
    const after = pod.triton.models.get(model);
    for (const [version, loaded] of after?.versions ?? []) {
      const old = before?.versions.get(version);
      if (old === undefined || old === loaded || this.of(pod).isDisturbed) continue;
      if (old.content === loaded.content && old.labels === loaded.labels) {
        this.report(`${pod.uid} loaded ${model}/${version} again without need`);
      }
    }
    this.check(pod);
  }

  /** What must not last. */
  watch(pod: Pod): void {
    const { state } = pod;
    const history = this.of(pod);
    this.check(pod);
    const { now } = this.clock;
    if (state === undefined || !pod.isUpFor(PATIENCE_MS)) {
      history.strayedSince = history.unreadySince = undefined;
      return;
    }
    const isStray = state.release !== null && state.trial === null && !this.wasHead(state.release);
    history.strayedSince = isStray ? (history.strayedSince ?? now) : undefined;
    history.unreadySince = state.ready || state.home === null ? undefined : (history.unreadySince ?? now);
    if (now - (history.strayedSince ?? now) > PATIENCE_MS) {
      this.report(`${pod.uid} serves for long what neither head nor a trial names`);
    }
    if (now - (history.unreadySince ?? now) > PATIENCE_MS)
      this.report(`${pod.uid} has a home, and serves nothing for long`);
  }

  check(pod: Pod): void {
    const { state } = pod;
    if (state === undefined) return;
    this.recorder?.look(pod);
    this.checkHome(pod, state);
    this.checkRuns(pod, state);
    if (state.release !== null && state.release !== NO_RELEASE) this.checkBytes(pod, state.release);
  }

  private checkHome(pod: Pod, { home, trial }: AgentState): void {
    if (home === null) return;
    const history = this.of(pod);
    const generation = this.generationOf(home);
    if (generation === undefined) return this.report(`${pod.uid} has a home that never was head`);
    if (generation < history.home) this.report(`${pod.uid} went back to an older home`);
    history.home = Math.max(history.home, generation);
    if (trial === null) return;
    const base = this.manifests.get(trial.release)?.base ?? 0;
    if (base < history.home) this.report(`${pod.uid} tries a release that is built on an older one than its home`);
  }

  /** First generation of head.json that names the release. */
  private generationOf(release: string): number | undefined {
    return this.heads.find((head) => head.release === release)?.generation;
  }

  private checkRuns(pod: Pod, { release, trial }: AgentState): void {
    for (const run of this.runs) {
      if (run.release === undefined) continue;
      if (run.code === 1 && (release === run.release || trial?.release === run.release)) {
        this.report(`${run.by} ended with 1, and ${pod.uid} serves or tries its release after that`);
      }
      if (run.code === 0 && release !== null && run.pods.includes(pod.uid)) {
        const own = this.generationOf(run.release) ?? 0;
        const served = this.generationOf(release) ?? (this.manifests.get(release)?.base ?? 0) + 1;
        if (served < own) this.report(`${run.by} ended with 0, and ${pod.uid} serves an older release after that`);
      }
    }
  }

  /** What a pod reports as served is what its server has loaded. */
  private checkBytes(pod: Pod, release: string): void {
    const manifest = this.manifests.get(release);
    if (manifest === undefined) return this.report(`${pod.uid} serves ${release}, which does not exist`);
    for (const [model, released] of Object.entries(manifest.models)) {
      const loaded = pod.triton.models.get(model)?.versions;
      const labels = released.files.find(({ path }) => path === 'labels.txt');
      const label = labels && this.text(labels.key);
      for (const { name: version, files } of getUnits(model, released).filter(({ isVersion }) => isVersion)) {
        const found = loaded?.get(version);
        if (found === undefined) {
          // The server has just restarted, and the agent has not noticed.
          if (pod.isUpFor(PATIENCE_MS)) this.report(`${pod.uid} reports ${model}/${version}, which is not loaded`);
          continue;
        }
        const [file] = files;
        const desired = file && this.text(file.key);
        if (found.content !== desired)
          this.report(`${pod.uid} serves "${found.content}" instead of "${desired}" as ${model}/${version}`);
        if (found.labels !== label) this.report(`${pod.uid} serves ${model}/${version} with other labels`);
      }
      for (const version of loaded?.keys() ?? []) {
        if (!released.served.includes(Number(version)))
          this.report(`${pod.uid} serves ${model}/${version}, which the release does not have`);
      }
    }
  }

  private text(key: string): string | undefined {
    return this.bucket.objects.get(key)?.toString();
  }

  // ------------------------------------------------------------------ the end

  finish(pods: readonly Pod[]): void {
    for (const pod of pods) {
      this.check(pod);
      if (this.servesHead(pod)) continue;
      const { release, ready, trial, problem } = pod.state ?? {};
      this.report(
        `${pod.uid} does not serve head in the end: ${JSON.stringify({ release, ready, trial: trial?.release, problem })}`,
      );
    }
    for (const { by, code, release } of this.runs) {
      if (code === 1 && this.wasHead(release)) this.report(`${by} ended with 1, and its release was head`);
    }
    for (const id of this.heads.at(-1)?.retained ?? []) {
      const files = Object.values(this.manifests.get(id)?.models ?? {}).flatMap((model) => model.files);
      if (files.length === 0) this.report(`the retained release ${id} has no manifest`);
      for (const { key } of files) {
        if (this.text(key) === undefined) this.report(`the retained release ${id} has lost ${key}`);
      }
    }
  }
}
