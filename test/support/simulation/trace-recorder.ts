import type { AgentEvent } from '../../../src/agent/events';
import type { Head } from '../../../src/release/head';
import type { Manifest } from '../../../src/release/manifest';
import { FIRST_RELEASE } from './models';
import type { Pod } from './pod';

/** Something that was seen from outside, as test/proof/Trace.tla reads it. */
export type Observation = readonly (string | number)[];

/** Ends of a trial that the agent reports before the head.json that caused them, as one step of the specification. */
const BY_HEAD = new Set<unknown>(['released', 'overtaken']);

/** Records what publishers send, what the bucket has, and what agents report: the steps of test/proof/Publish.tla. */
export class TraceRecorder {
  private readonly steps: Observation[] = [];
  /** Release -> its publisher. */
  private readonly publishers = new Map([[FIRST_RELEASE, 'r1']]);
  /** Index in `steps` at which head.json got each generation. */
  private readonly heads = [0, 0];
  /** Index in `steps` of the last list of pods of each publisher. */
  private readonly lists = new Map<string, number>();
  private readonly seen = new Map<string, string>();

  /** @param absent pods that do not exist at the start */
  constructor(absent: readonly string[]) {
    for (const pod of absent) this.steps.push(['stop', pod]);
  }

  // ------------------------------------------------------------------ publishers

  onManifest(publisher: string, { id, base }: Manifest): void {
    this.publishers.set(id, publisher);
    // It was planned while head.json had the generation of its base.
    this.insert(this.heads[base + 1] ?? this.steps.length, ['start', publisher]);
    this.steps.push(['manifest', publisher]);
  }

  onAsk(publisher: string, pod: string): void {
    this.steps.push(['ask', publisher, pod]);
  }

  onList(publisher: string): void {
    this.lists.set(publisher, this.steps.length);
  }

  /** A publisher sends its commit. It decided that when it listed the pods for the last time. */
  onCommit(publisher: string): void {
    this.insert(this.lists.get(publisher) ?? this.steps.length, ['commit', publisher]);
  }

  onHead({ release, writer }: Head): void {
    const publisher = this.publishers.get(writer) ?? writer;
    this.heads.push(this.steps.length);
    this.steps.push(['head', publisher, release === writer ? 'commit' : 'fence']);
  }

  onEnd(publisher: string, code: number): void {
    if ([...this.publishers.values()].includes(publisher)) this.steps.push(['exit', publisher, code]);
  }

  // ------------------------------------------------------------------ pods

  onEvent(pod: Pod, event: AgentEvent): void {
    if (event.event === 'trial') this.steps.push(['trial', pod.name, this.nameOf(String(event['release']))]);
    else if (event.event === 'trial end' && !BY_HEAD.has(event['outcome'])) this.steps.push(['trial end', pod.name]);
    else if (event.event === 'tag' || event.event === 'lost') this.steps.push(['tag', pod.name]);
    this.look(pod);
  }

  onPod(what: 'restart' | 'stop' | 'join', pod: Pod): void {
    this.steps.push([what, pod.name]);
    this.seen.delete(pod.name);
  }

  /** Records what the agent reports, if it is something new. */
  look({ name, state }: Pod): void {
    if (state === undefined) return;
    const { release, home, head, trial } = state;
    const now = [this.nameOf(release), this.nameOf(home), head?.generation ?? 0, this.nameOf(trial?.release)];
    if (this.seen.get(name) === now.join()) return;
    this.seen.set(name, now.join());
    this.steps.push(['state', name, ...now]);
  }

  /** @param isSettled whether every pod serves what head.json names, outside of a trial */
  finish(isSettled: boolean): Observation[] {
    return [...this.steps, [isSettled ? 'settled' : 'not settled']].map((step) =>
      // TLA+ has no hyphens in names.
      step.map((part) => (typeof part === 'string' ? part.replace('-', '') : part)),
    );
  }

  private nameOf(release: string | null | undefined): string {
    return release === null || release === undefined ? 'none' : (this.publishers.get(release) ?? release);
  }

  private insert(index: number, step: Observation): void {
    this.steps.splice(index, 0, step);
    const moved = (at: number): number => (at >= index ? at + 1 : at);
    this.heads.forEach((at, generation) => (this.heads[generation] = moved(at)));
    for (const [publisher, at] of this.lists) this.lists.set(publisher, moved(at));
  }
}
