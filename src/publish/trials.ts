import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../core/abort';
import { PartialFailureError, UserError } from '../core/errors';
import { formatDuration } from '../core/format';
import { nextCommand } from '../core/next-command';
import type { AgentState, AgentStatistics, TrialRequest } from '../release/agent-api';
import {
  AgentClient,
  AgentError,
  AnotherPublisherError,
  getStates,
  type AgentAddress,
  type AgentSource,
} from './agent-client';
import type { Bake } from './bake';

/** The release that pods are asked to try. */
export interface TriedRelease {
  id: string;
  manifestSha256: string;
  /** Generation of head.json that it is built on. */
  base: number;
  secret: string;
}

export interface TrialOptions {
  agents: AgentSource;
  /** Sorts publishers: of two that meet, the one with the lower id goes on. */
  runId: string;
  /** For messages: `ann@laptop`. */
  by: string;
  ttlSeconds: number;
  /** Time for one pod, from the request until it serves the release. */
  timeoutMs: number;
  /** Time until a pod accepts the trial, or until one is there that may. */
  firstMs?: number;
  /** Time for the pods to go back after a failure. Default: `timeoutMs`. */
  endMs?: number;
  /** Whether each replica sends the models their golden requests before it reports the release as served. */
  ask?: boolean;
  /** Compares the release with the current one, while the first replica serves it. */
  bake?: Bake | undefined;
  /** A commit is sent only if each lease lasts for longer than this, because the request may take as long. Default 20 s. */
  leftMs?: number;
  /** Time between two checks of a pod. */
  pollMs?: number;
  signal?: AbortSignal | undefined;
  onStage?: ((text: string) => void) | undefined;
  /** Called with the numbers of the bake. */
  onBake?: ((text: string) => void) | undefined;
}

type Place = Pick<TrialRequest, 'outside' | 'alone'>;

/** A pod that was asked to serve the release. */
interface Asked {
  client: AgentClient;
  trial: string;
  served: boolean;
  /** Whether we have ended the trial, so that it must not be renewed even if the agent has not heard of it. */
  ended?: boolean;
  /** When the lease ends by our clock, counted from when the request was sent. */
  leaseEnds: number;
}

const POLL_MS = 1000;
const FIRST_MS = 120_000;
const LEFT_MS = 20_000;

/**
 * Replicas that change at a time, of so many, after the first: as a Deployment replaces pods by default. They may leave the
 * Service meanwhile.
 */
const atATime = (replicas: number): number => Math.max(1, Math.floor(replicas / 4));

/** Has pods serve a release that head.json does not name yet: first one, then some at a time. test/proof/Publish.tla specifies this. */
export class Trials {
  private readonly asked = new Map<string, Asked>();
  private readonly renewing: NodeJS.Timeout;
  private readonly announced = new Set<string>();

  constructor(
    private readonly release: TriedRelease,
    private readonly options: TrialOptions,
  ) {
    this.renewing = setInterval(() => void this.renew(), (options.ttlSeconds * 1000) / 6).unref();
  }

  /**
   * Returns when every replica that gets requests serves the release, with leases that last until a commit is done.
   * @returns the names of these replicas, at least one
   * @throws UserError with the reason of the first pod that does not serve it
   */
  async run(): Promise<string[]> {
    const { timeoutMs, firstMs = FIRST_MS, signal, bake, pollMs = POLL_MS } = this.options;
    const started = Date.now();
    for (;;) {
      signal?.throwIfAborted();
      const agents = await this.list();
      const ready = agents.filter((agent) => agent.ready !== false);
      // A pod that switches may be not ready for a moment. If none is ready, those are asked that cannot serve head.
      const known = agents.filter(({ uid, ready }) => ready !== false || this.asked.has(uid));
      const due = known.length > 0 ? known : await this.findBroken(agents, Date.now() - started > firstMs);
      const next = due.filter(({ uid }) => this.asked.get(uid)?.served !== true);
      const isFirst = next.length === due.length;
      if (isFirst && due.length === 1) bake?.giveUp(`only ${due[0]?.name} gets requests`);
      if (Date.now() - started > (due.length + 1) * (timeoutMs + firstMs) + (bake?.milliseconds ?? 0)) {
        throw new UserError(
          `${next[0]?.name ?? 'a replica'} was asked again and again, and did not go on serving the release`,
          { hint: 'read the log of its agent' },
        );
      }
      if (bake !== undefined && !isFirst) {
        await this.compare(bake, due);
        if (!bake.isOver) {
          await abortable(sleep(pollMs), signal);
          continue;
        }
      }
      const wave = next.slice(0, isFirst ? 1 : atATime(due.length));
      if (next.length > 0) {
        const alone = isFirst && !(await this.isOneReady(ready.filter((agent) => agent !== wave[0])));
        await this.tryOnEach(wave, { outside: isFirst && !alone, alone });
      } else if (due.length > 0 && (await this.areAllServed())) return due.map(({ name }) => name);
      // A trial with too little time left is asked for again when it has ended.
      else await abortable(sleep(pollMs), signal);
    }
  }

  /**
   * Compares what the replicas have answered that serve the release with what the others have.
   * @throws UserError if the release is worse, or a replica has refused it
   */
  private async compare(bake: Bake, due: readonly AgentAddress[]): Promise<void> {
    const [newer, older] = [new Map<string, AgentStatistics>(), new Map<string, AgentStatistics>()];
    await Promise.all(
      due.map(async (address) => {
        const answer = await new AgentClient(address).getStatistics().catch((error: unknown) => {
          this.announce((error as Error).message);
        });
        if (answer === undefined) return;
        const asked = this.asked.get(address.uid);
        if (asked?.served === true) {
          const { lastTrial } = answer;
          if (lastTrial?.id === asked.trial && lastTrial.outcome === 'refused') bake.stop(lastTrial.reason ?? '');
          requireNotEnded(address.name, asked, answer);
          asked.served = isServed(answer, asked.trial, this.release.id);
        }
        (asked === undefined ? older : newer).set(address.uid, answer);
      }),
    );
    bake.add(newer, older);
    this.options.onBake?.(bake.text);
  }

  /** Whether one of these replicas gets requests. The address of a dead one may be given with --triton. */
  private async isOneReady(agents: readonly AgentAddress[]): Promise<boolean> {
    return (await getStates(agents)).some((state) => state?.ready === true);
  }

  /**
   * Of replicas none of which is ready, those whose agent reports a problem, such as a current release that does not load.
   * @throws UserError if it is late and there are none
   */
  private async findBroken(agents: readonly AgentAddress[], isLate: boolean): Promise<AgentAddress[]> {
    const states = await Promise.all(
      agents.map((agent) =>
        new AgentClient(agent).getState().catch((error: unknown) => ({ problem: (error as Error).message })),
      ),
    );
    const broken = agents.filter((_, i) => 'stateTag' in (states[i] ?? {}) && states[i]?.problem !== null);
    if (broken.length > 0) return broken;
    const problems = agents.map(({ name }, i) => states[i]?.problem ?? `${name} is starting`);
    const text = `no replica is ready: ${agents.length === 0 ? this.options.agents.describe() : problems.join('; ')}`;
    if (isLate) {
      throw new UserError(text, {
        hint: 'run "npm run status" to see why; a release that no replica can try is committed with --untried',
      });
    }
    this.announce(`${text}; waiting`);
    return [];
  }

  /** Reports a reason for waiting once. */
  private announce(text: string): void {
    if (!this.announced.has(text)) this.options.onStage?.(text);
    this.announced.add(text);
  }

  /** The trials on those of the pods that are still there. */
  private trialsOf(uids: readonly string[]): Asked[] {
    return uids.flatMap((uid) => this.asked.get(uid) ?? []);
  }

  /** Forgets pods that are gone. */
  private async list(): Promise<AgentAddress[]> {
    const agents = await this.options.agents.list();
    for (const uid of this.asked.keys()) if (!agents.some((agent) => agent.uid === uid)) this.asked.delete(uid);
    return agents;
  }

  /**
   * Returns when each of the pods serves the release or is gone.
   * @throws what was thrown for the first pod that failed, after the others have stopped: none of them asks any more
   */
  private async tryOnEach(addresses: readonly AgentAddress[], place: Place): Promise<void> {
    const failed = new AbortController();
    const signals = [failed.signal, this.options.signal].filter((signal) => signal !== undefined);
    const tryOne = (address: AgentAddress): Promise<void> =>
      this.tryOn(address, place, AbortSignal.any(signals)).catch((error: unknown) => failed.abort(error));
    await Promise.all(addresses.map(tryOne));
    failed.signal.throwIfAborted();
  }

  private async tryOn(address: AgentAddress, place: Place, signal: AbortSignal): Promise<void> {
    const { timeoutMs, firstMs = FIRST_MS, onStage } = this.options;
    const started = Date.now();
    const client = new AgentClient(address);
    let deadline = Date.now() + firstMs;
    let asked: Asked | undefined;
    let doing = 'not started';
    for (;;) {
      signal.throwIfAborted();
      try {
        const state = await client.getState();
        const { phase = doing, asking = '' } = state.trial ?? {};
        doing = `${phase} ${asking}`.trim();
        if (asked === undefined) {
          this.announce(`${client.name} loads the release`);
          asked = await this.begin(address, client, state, place);
          deadline = Date.now() + timeoutMs;
        } else if (isServed(state, asked.trial, this.release.id)) {
          if (!asked.served) {
            asked.served = true;
            deadline = Date.now() + timeoutMs;
            onStage?.(`${client.name}: serves the release (${formatDuration(Date.now() - started)})`);
          }
          const now = (await this.list()).find(({ uid }) => uid === address.uid);
          if (now === undefined || (now.ready !== false && state.ready)) return;
          doing = 'served, but not ready';
          this.announce(`${client.name} is not ready yet, waiting`);
        } else {
          requireNotEnded(client.name, asked, state);
          if (state.trial?.id !== asked.trial) asked = undefined; // The agent has restarted.
        }
      } catch (error) {
        if (!(error instanceof AgentError) || !this.mayRetry(error)) throw error;
        if (!(await this.options.agents.list()).some(({ uid }) => uid === address.uid)) return;
        if (Date.now() > deadline) throw error;
        this.announce(error.message);
      }
      if (Date.now() > deadline) {
        const time = formatDuration(Date.now() - started);
        throw new UserError(`${client.name} did not load and answer the release within ${time}: it is ${doing}`, {
          hint: 'allow more time with --load-timeout, or read the log of its agent',
        });
      }
      // A small model is loaded sooner than a large one.
      const pollMs = Math.min(this.options.pollMs ?? POLL_MS, 50 + (Date.now() - started) / 4);
      await abortable(sleep(pollMs), signal);
    }
  }

  /** Whether the request may succeed later: the pod starts, its state has changed, or another publisher may end. */
  private mayRetry({ status, body, message }: AgentError): boolean {
    if (status === 410) {
      const hint = `; if no other publisher is active, head.json is older than what the replicas have read: ${nextCommand('rollback', '--repair')}`;
      throw new AnotherPublisherError(message, { hint });
    }
    if (status === 409 && String(body['id']) < this.options.runId) throw new AnotherPublisherError(message);
    return [0, 409, 412, 503].includes(status);
  }

  private async begin(
    address: AgentAddress,
    client: AgentClient,
    { stateTag }: AgentState,
    place: Place,
  ): Promise<Asked> {
    const { runId, by, ttlSeconds, ask } = this.options;
    const { id: release, manifestSha256, base, secret } = this.release;
    const trial = `${runId}-${randomBytes(4).toString('hex')}`;
    const asked = { client, trial, served: false, leaseEnds: Date.now() + ttlSeconds * 1000 };
    // Also if no answer comes: a failure then ends this trial too.
    this.asked.set(address.uid, asked);
    try {
      const request = { id: trial, release, manifestSha256, base, secret, ttlSeconds, by, stateTag, ask };
      await client.begin({ ...request, ...place });
    } catch (error) {
      // An earlier request of ours began a trial, and its answer was lost.
      const running = error instanceof AgentError && error.status === 409 ? String(error.body['id']) : '';
      if (!running.startsWith(`${runId}-`)) throw error;
      asked.trial = running;
    }
    return asked;
  }

  private async renew(committed = false): Promise<void> {
    const { ttlSeconds } = this.options;
    await Promise.all(
      [...this.asked.values()].map(async (asked) => {
        if (asked.ended === true) return;
        const sent = Date.now();
        try {
          const note = this.options.bake?.text;
          const renewal = { secret: this.release.secret, ttlSeconds, committed, note };
          await asked.client.renew(asked.trial, renewal);
          asked.leaseEnds = sent + 1000 * ttlSeconds;
        } catch (error) {
          // The trial has ended: the pod is asked again.
          if (error instanceof AgentError && error.status === 404) asked.served = false;
        }
      }),
    );
  }

  /** Whether each pod that was asked still serves the release under a trial of ours that lasts. */
  private async areAllServed(): Promise<boolean> {
    await this.renew();
    await Promise.all(
      [...this.asked.values()].map(async (asked) => {
        const state = await asked.client.getState().catch(() => undefined);
        if (state === undefined || !isServed(state, asked.trial, this.release.id)) asked.served = false;
      }),
    );
    for (const asked of this.asked.values()) {
      if (asked.leaseEnds - Date.now() < (this.options.leftMs ?? LEFT_MS)) asked.served = false;
    }
    return [...this.asked.values()].every(({ served }) => served);
  }

  /**
   * After the commit: returns when every pod that was asked has read the new generation and serves the release.
   * @throws UserError with the replicas that did not; the reason of the abort if the signal is aborted
   */
  async untilAcknowledged(generation: number): Promise<void> {
    await this.renew(true);
    const late = await this.waitFor(
      [...this.asked.keys()],
      // Another publisher may have made a later release.
      ({ head, home, release }) =>
        (head?.generation ?? 0) > generation ||
        (head?.generation === generation && [home, release].includes(this.release.id)),
      { signal: this.options.signal },
    );
    if (late.length > 0) throw new UserError(`this is not confirmed by ${late.join(', ')}`);
  }

  /**
   * After a failure: ends the trials, and returns when every pod that was asked serves another release. Pods go back as they
   * came, some at a time, while the trials of the others go on, because they may have to leave the Service.
   * @throws PartialFailureError
   */
  async end(): Promise<void> {
    const uids = [...this.asked.keys()];
    const late: string[] = [];
    const most = atATime(uids.length);
    for (let i = 0; i < uids.length; i += most) late.push(...(await this.endEach(uids.slice(i, i + most))));
    this.stop();
    if (late.length === 0) return;
    throw new PartialFailureError(`it is not confirmed that ${late.join(', ')} went back to the release before`, {
      hint: 'run "npm run status" to see what each replica serves; a trial ends by itself when its time is over',
    });
  }

  /**
   * Returns when these pods serve another release, or their time is over.
   * @returns the names of those that did not confirm that they serve another release
   */
  private async endEach(uids: readonly string[]): Promise<string[]> {
    const { id, secret } = this.release;
    const trials = this.trialsOf(uids);
    for (const asked of trials) asked.ended = true;
    await Promise.all(trials.map(({ client, trial }) => client.end(trial, secret).catch(() => undefined)));
    return this.waitFor(
      uids,
      (state) => state.trial?.release !== id && state.release !== id && state.release !== null,
      { timeoutMs: this.options.endMs },
    );
  }

  stop(): void {
    clearInterval(this.renewing);
  }

  /** @returns the names of the pods of which the check was not true in time; pods that are gone do not count */
  private async waitFor(
    uids: readonly string[],
    check: (state: AgentState) => boolean,
    {
      timeoutMs = this.options.timeoutMs,
      signal,
    }: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined },
  ): Promise<string[]> {
    const deadline = Date.now() + timeoutMs;
    const passed = new Set<Asked>();
    for (;;) {
      signal?.throwIfAborted();
      // Without a list the pods that are known are asked.
      await this.list().catch(() => undefined);
      const trials = this.trialsOf(uids);
      await Promise.all(
        trials.map(async (asked) => {
          if (passed.has(asked)) return;
          const state = await asked.client.getState().catch(() => undefined);
          if (state !== undefined && check(state)) passed.add(asked);
        }),
      );
      const waiting = trials.filter((asked) => !passed.has(asked));
      if (waiting.length === 0 || Date.now() > deadline) return waiting.map(({ client }) => client.name);
      await abortable(sleep(this.options.pollMs ?? POLL_MS), signal);
    }
  }
}

/** @throws UserError if the trial has ended, with the reason */
function requireNotEnded(name: string, { trial }: Asked, { lastTrial }: Pick<AgentState, 'lastTrial'>): void {
  if (lastTrial?.id !== trial) return;
  const { reason, outcome } = lastTrial;
  const hint = outcome === 'refused' ? lastTrial.hint : 'run the command again';
  const why = reason ?? (outcome === 'expired' ? 'this command did not renew the trial in time' : outcome);
  const message = `${name} does not serve the release: ${why}`;
  if (outcome === 'overtaken') throw new AnotherPublisherError(message);
  throw new UserError(message, { hint });
}

const isServed = ({ trial, release }: AgentState, id: string, wanted: string): boolean =>
  trial?.id === id && trial.phase === 'served' && release === wanted;
