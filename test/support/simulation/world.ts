import { PartialFailureError, UserError } from '../../../src/core/errors';
import type { AgentAddress, AgentSource } from '../../../src/publish/agent-client';
import { Program, Clock, hashText, useClock } from './clock';
import { Checks, type Run } from './checks';
import { disk } from './memory-disk';
import { modelOf, writeFirstRelease } from './models';
import { Network, NoResponseError, TRITON_REQUESTS } from './network';
import { freeze, Pod } from './pod';
import { MemoryBucket } from '../memory-store';
import type { Happening, Publish, Scenario } from './scenario';
import { SimulatedStore } from './simulated-store';
import { TraceRecorder, type Observation } from './trace-recorder';
import type { RepositoryModel } from '../../../src/model';
import { BAKE_DEFAULTS } from '../../../src/release/bake';
import { desiredModels } from '../../../src/publish/desired';
import { makeRelease } from '../../../src/publish/make-release';
import type { ReleaseOptions } from '../../../src/publish/options';
import type { TrialOptions } from '../../../src/publish/trials';
import type { S3Store } from '../../../src/s3/store';

interface PublishOptions extends Pick<ReleaseOptions, 'location' | 'signal' | 'bake'> {
  store: S3Store;
  agents: AgentSource;
  trials: Partial<TrialOptions>;
}

/** The only place where the simulation knows how a publisher is put together. */
async function publish(models: readonly RepositoryModel[], options: PublishOptions): Promise<void> {
  const target = { models: await desiredModels(models), remove: [], origin: 'simulation' };
  await makeRelease(() => Promise.resolve(target), { ...options, loadTimeoutMs: 60_000, waitMs: 0 });
}

const LOCATION = { bucket: 'bucket', prefix: 'models' };
const TTL_SECONDS = 30;
/** A commit is sent within this time before a lease ends. */
const LEFT_MS = 12_000;
const AGENT = { location: LOCATION, pollMs: 10_000, spreadMs: 15_000, watchMs: 10_000, retryMs: 5000 };
/** Latest end of a publish, by its own timeouts. */
const LONGEST_MS = 1_800_000;
/** Without faults, every pod serves head after this time. */
const SETTLED_MS = 300_000;
/** An agent notices within this time that its Triton has restarted. */
const NOTICED_MS = 25_000;
const QUIET_MS = 15_000;
const HOURS_MS = 2 * 3_600_000;
const POD_NAMES = ['pod-0', 'pod-1', 'pod-2'];

export interface Outcome {
  wrong: string[];
  runs: Run[];
  events: number;
  hash: number;
  log: string[];
  /** If it was asked for. */
  trace: Observation[];
}

/** Runs one scenario. The same scenario gives the same hash. */
export async function simulate(scenario: Scenario, options: { log?: boolean; trace?: boolean } = {}): Promise<Outcome> {
  const world = new World(scenario, options);
  try {
    await world.run();
  } finally {
    useClock(undefined);
  }
  const { wrong, runs } = world.checks;
  return {
    wrong: [...new Set(wrong)],
    runs,
    events: world.clock.events,
    hash: world.hash,
    log: world.log,
    trace: world.trace,
  };
}

class World {
  readonly clock: Clock;
  readonly checks: Checks;
  readonly log: string[] = [];
  trace: Observation[] = [];
  hash = 0;
  private readonly bucket = new MemoryBucket();
  private readonly network: Network;
  private readonly s3 = new Program('s3', 0);
  private readonly outside = new Program('outside', 0);
  private readonly publishers: {
    program: Program;
    stop: AbortController;
    store: SimulatedStore;
    run: Run;
  }[] = [];
  private pods: Pod[] = [];
  private created = 0;
  private busyUntil = 0;

  constructor(
    private readonly scenario: Scenario,
    private readonly options: { log?: boolean; trace?: boolean },
  ) {
    const { seed } = scenario;
    this.clock = new Clock(this.outside);
    useClock(this.clock);
    disk.clear();
    this.network = new Network(this.clock, seed, (text) => this.note(text));
    this.checks = new Checks(this.clock, this.bucket, LOCATION);
    writeFirstRelease(this.bucket, LOCATION);
    Object.assign(globalThis, {
      fetch: (url: string, init: Parameters<Network['fetch']>[1]) => {
        const asked = this.pods.find(({ uid }) => uid === new URL(url).hostname);
        if (init.method === 'POST' && asked !== undefined) {
          this.checks.recorder?.onAsk(this.clock.current.name, asked.name);
        }
        return this.network.fetch(url, init, (name) => {
          const pod = this.pods.find(({ uid, agent }) => uid === name && agent !== undefined);
          if (pod !== undefined) this.checks.recorder?.look(pod);
          return pod?.program;
        });
      },
    });
  }

  async run(): Promise<void> {
    const { pods, publishes, happenings, hours } = this.scenario;
    for (let i = 0; i < pods; i += 1) this.addPod(`pod-${i}`);
    // Without faults until every pod serves the first release.
    await this.clock.run(60_000, () => this.pods.every((pod) => this.checks.servesHead(pod)));
    const start = this.clock.now;
    if (this.options.trace === true) this.checks.recorder = new TraceRecorder(POD_NAMES.slice(pods));
    this.network.begin(this.scenario.faults);
    publishes.forEach((one, i) => this.prepare(one, i, start));
    for (const happening of happenings) {
      const end = happening.at + ('ms' in happening ? Math.max(0, happening.ms) : 0);
      this.busyUntil = Math.max(this.busyUntil, start + end);
      this.clock.deliver(this.outside, happening.at, () => this.happen(happening));
    }
    const watch = (): void => {
      for (const pod of this.pods) this.checks.watch(pod);
      this.clock.deliver(this.outside, 10_000, watch);
    };
    watch();
    await this.clock.run(start + LONGEST_MS, () => this.isQuiet);
    if (!this.isQuiet) this.checks.report('the publishers did not end');
    const isSettled = (): boolean =>
      this.network.underWay === 0 && this.pods.every((pod) => pod.isUpFor(NOTICED_MS) && this.checks.servesHead(pod));
    // The faults are over.
    this.network.begin([]);
    for (const { program } of this.pods) program.writesLeft = undefined;
    const end = this.clock.now + SETTLED_MS;
    let isStable = false;
    while (!isStable && this.clock.now < end) {
      await this.clock.run(end, isSettled);
      await this.clock.run(this.clock.now + QUIET_MS, () => !isSettled());
      isStable = isSettled();
    }
    if (hours) {
      const { hash } = this.checks;
      await this.clock.run(this.clock.now + HOURS_MS, () => false);
      if (isSettled() && hash !== this.checks.hash)
        this.checks.report('pods changed what they serve in hours without faults');
    }
    this.clock.current = this.outside;
    this.checks.finish(this.pods);
    this.trace = this.checks.recorder?.finish(this.pods.every((pod) => this.checks.servesHead(pod))) ?? [];
    this.hash = hashText(JSON.stringify([this.checks.runs, this.checks.wrong]), this.hash ^ this.checks.hash);
  }

  /** Whether all faults are over and every publisher has ended. */
  private get isQuiet(): boolean {
    return (
      this.clock.now >= this.busyUntil &&
      this.publishers.every(({ run, program }) => run.code !== undefined || program.isDead) &&
      this.pods.every(({ agent }) => agent !== undefined)
    );
  }

  private note(text: string): void {
    const line = `${this.clock.now} ${text}`;
    this.hash = hashText(line, this.hash);
    if (this.options.log === true) this.log.push(line);
  }

  private newStore(deadlineMs: number): SimulatedStore {
    const { bucket, network, clock, s3 } = this;
    return new SimulatedStore({ bucket, location: LOCATION, network, clock, s3, deadlineMs });
  }

  private addPod(name: string): void {
    const { clock, network, scenario } = this;
    this.created += 1;
    const uid = `${name}-${this.created}`;
    const seed = hashText(uid, scenario.seed);
    const pod = new Pod(name, uid, clock.now, seed, clock, network, this.newStore(30_000), AGENT, {
      onEvent: (which, event) => {
        this.note(`${which.uid} ${JSON.stringify(event)}`);
        this.checks.onEvent(which, event);
      },
      onDeath: (which) => this.checks.onDeath(which),
      onLoad: (which, model, before) => this.checks.onLoad(which, model, before),
      onCrash: (error) => this.checks.report(`the agent of ${uid} threw ${(error as Error).stack}`),
    });
    this.checks.add(pod);
    if (this.isDisturbed(name)) this.checks.disturb(pod);
    this.pods.push(pod);
    this.checks.recorder?.onPod('join', pod);
    pod.start();
  }

  /** Whether a fault or a happening may make the pod load again what it has loaded. */
  private isDisturbed(name: string): boolean {
    const { faults, happenings } = this.scenario;
    return (
      faults.some(
        ({ client, request }) => client === name && (TRITON_REQUESTS as readonly string[]).includes(request),
      ) || happenings.some((what) => 'program' in what && what.program === name && what.kind !== 'lose S3')
    );
  }

  private happen(what: Happening): void {
    this.note(`${what.kind} ${JSON.stringify(what)}`);
    const { clock } = this;
    const publisher = 'publisher' in what ? this.publishers[what.publisher] : undefined;
    const pod = 'pod' in what ? this.pods[what.pod] : undefined;
    switch (what.kind) {
      case 'kill':
        publisher?.program.die();
        break;
      case 'interrupt':
        if (publisher !== undefined && publisher.run.code === undefined) {
          clock.deliver(publisher.program, 0, () => publisher.stop.abort(new UserError('interrupted')));
        }
        break;
      case 'restart agent':
        if (pod === undefined) break;
        pod.downMs = what.ms;
        pod.program.die();
        break;
      case 'agent dies at a write':
        if (pod === undefined) break;
        pod.downMs = what.ms;
        pod.program.writesLeft = what.writes;
        break;
      case 'restart Triton':
        if (pod === undefined) break;
        this.checks.disturb(pod);
        pod.restartTriton(what.ms);
        break;
      case 'set clock':
        if (pod === undefined) break;
        this.checks.disturb(pod);
        pod.program.wallOffset += what.ms;
        break;
      case 'lose S3':
        for (const store of this.storesOf(what.program)) store.cutUntil = clock.now + what.ms;
        break;
      case 'freeze':
      case 'suspend':
        this.pods.find(({ name }) => name === what.program)?.freeze(what.ms, what.kind === 'suspend');
        for (const { program } of this.publishers)
          if (program.name === what.program) freeze(program, clock.now, what.ms, what.kind === 'suspend');
        break;
      case 'replace pod':
        if (pod === undefined) break;
        pod.delete();
        this.checks.recorder?.onPod('stop', pod);
        this.pods = this.pods.filter((one) => one !== pod);
        this.addPod(pod.name);
        break;
      case 'add pod':
        if (this.pods.length < POD_NAMES.length) this.addPod(`pod-${this.pods.length}`);
        break;
    }
  }

  private storesOf(name: string): SimulatedStore[] {
    return [
      ...this.pods.filter((pod) => pod.name === name).map(({ store }) => store),
      ...this.publishers.filter(({ program }) => program.name === name).map(({ store }) => store),
    ];
  }

  private prepare({ at, a, b, bake = 0 }: Publish, index: number, start: number): void {
    const name = `publisher-${index}`;
    const program = new Program(name, this.scenario.seed);
    const store = this.newStore(30_000);
    const stop = new AbortController();
    const run: Run = { by: name, release: undefined, code: undefined, reason: '', at: 0, pods: [] };
    this.publishers.push({ program, stop, store, run });
    this.checks.runs.push(run);
    program.onDeath = (): void => {
      if (run.code === undefined) this.checks.recorder?.onEnd(name, 9);
      run.code ??= 9;
    };
    const models = [modelOf('a', a), modelOf('b', b)];
    this.checks.watchPublisher(run, store, () => this.pods);
    this.clock.deliver(program, start + at - this.clock.now, () => {
      const end = (code: 0 | 1 | 3, reason = ''): void => {
        this.note(`${name} ends with ${code} ${reason}`);
        this.checks.onEnd(run, code, reason, this.pods);
      };
      publish(models, {
        store: store.store,
        location: LOCATION,
        agents: { describe: () => 'pods', list: () => this.list() },
        bake: bake === 0 ? undefined : { ...BAKE_DEFAULTS, minutes: bake / 60, withoutTraffic: 'continue' },
        trials: { by: name, ttlSeconds: TTL_SECONDS, leftMs: LEFT_MS, pollMs: 2500, timeoutMs: 60_000 },
        signal: stop.signal,
      }).then(
        () => end(0),
        (error: unknown) => {
          if (!(error instanceof UserError)) this.checks.report(`${name} threw ${(error as Error).stack}`);
          end(error instanceof PartialFailureError ? 3 : 1, (error as Error).message);
        },
      );
    });
  }

  /** The pods, as the API of Kubernetes lists them. */
  private async list(): Promise<AgentAddress[]> {
    const by = this.clock.current.name;
    try {
      return await this.network.call({
        request: 'pods',
        to: () => this.s3,
        apply: () => {
          this.checks.recorder?.onList(by);
          return this.pods.map(({ name, uid }) => ({ name, uid, url: `http://${uid}` }));
        },
        timeoutMs: 10_000,
      });
    } catch (error) {
      // As src/publish/cluster does.
      throw error instanceof NoResponseError ? new UserError(error.message) : error;
    }
  }
}
