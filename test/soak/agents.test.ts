import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from '../../src/agent/agent';
import { RESTART_FILE } from '../../src/agent/pod-files';
import { startControlApi, type Listener } from '../../src/agent/control-api';
import { getUnits } from '../../src/agent/content-store';
import { forEachLimited } from '../../src/core/concurrency';
import { PartialFailureError, UserError } from '../../src/core/errors';
import type { AgentAddress } from '../../src/publish/agent-client';
import { publish } from '../../src/publish/publish';
import type { AgentState } from '../../src/release/agent-api';
import { parseHead } from '../../src/release/head';
import { releasesPrefix } from '../../src/release/location';
import { parseManifest, type Manifest } from '../../src/release/manifest';
import { writeRepository } from '../support/repository';
import { RuleTriton } from '../support/rule-triton';
import { patience, repetitions, report, SeededRandom, SOAK_SEED } from '../support/soak';
import { Scratch } from '../support/temp-dir';
import { MemoryBucket, MemoryStore, type Faults } from '../support/memory-store';
import { until } from '../support/wait-for';

/**
 * Publishers and agents against a bucket in memory that loses, delays and repeats, and servers that load by Triton's
 * rules. Agents and servers restart, pods lose S3, publishers are interrupted or die.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'bucket', prefix: 'models' };
const RELEASES = releasesPrefix(LOCATION);
const SLOWEST_MS = 10;
const PODS = 2;
const AT_A_TIME = 4;
const ROUNDS = repetitions(12);

/** A pod: the server, and an agent that may restart. Its disk stays. */
class Pod {
  readonly triton: RuleTriton;
  readonly store: MemoryStore;
  url = 'http://127.0.0.1:9';
  private agent: Agent | undefined;
  private api: Listener | undefined;
  private stopping = new AbortController();
  private running = Promise.resolve();

  constructor(
    readonly name: string,
    private readonly directory: string,
    bucket: MemoryBucket,
    faults: Faults,
  ) {
    mkdirSync(join(directory, 'models'), { recursive: true });
    this.triton = new RuleTriton(join(directory, 'models'), faults, SLOWEST_MS);
    this.store = new MemoryStore(bucket, faults);
  }

  get state(): AgentState | undefined {
    return this.agent?.getState();
  }

  async start(): Promise<void> {
    this.stopping = new AbortController();
    const agent = new Agent({
      store: this.store.store,
      location: LOCATION,
      directory: this.directory,
      triton: this.triton,
      loadTimeoutMs: 10_000,
      pollMs: 50,
      spreadMs: 30,
      watchMs: 30,
      retryMs: 50,
      restartMs: 2000,
      leaveMs: 50,
    });
    this.running = agent.run(this.stopping.signal);
    this.api = await startControlApi(agent, 0);
    this.url = `http://127.0.0.1:${this.api.port}`;
    this.agent = agent;
  }

  /** The file by which the agent asks for a restart of Triton, as the start script of Triton sees it. */
  get restartRequest(): string | undefined {
    try {
      return readFileSync(join(this.directory, RESTART_FILE), 'utf8');
    } catch {
      return undefined;
    }
  }

  async stop(): Promise<void> {
    this.agent = undefined;
    this.stopping.abort();
    await this.api?.close();
    await this.running;
  }
}

/** One publish, and how it ended: 0, 1 or 3 as the exit code of the command, 9 if it was killed. */
interface Run {
  release: string | undefined;
  code: 0 | 1 | 3 | 9;
}

class Round {
  readonly bucket = new MemoryBucket();
  readonly heads: string[] = [];
  readonly wrong: string[] = [];
  readonly runs: Run[] = [];
  private readonly pods: Pod[];
  private readonly faults: Faults;
  private readonly manifests = new Map<string, Manifest>();
  private folders = 0;
  private over = false;

  constructor(
    private readonly random: SeededRandom,
    private readonly directory: string,
  ) {
    this.faults = { random, loss: 0, late: 0, slowestMs: SLOWEST_MS };
    this.pods = Array.from(
      { length: PODS },
      (_, i) => new Pod(`pod-${i}`, join(directory, `pod-${i}`), this.bucket, this.faults),
    );
    this.bucket.onWrite = (key, body): void => {
      if (key === `${RELEASES}/head.json`) this.heads.push(parseHead(body, key).release);
      else if (key.startsWith(`${RELEASES}/2`))
        this.manifests.set(key.slice(RELEASES.length + 1, -5), parseManifest(body, key));
    };
  }

  async run(): Promise<void> {
    await Promise.all(this.pods.map((pod) => pod.start()));
    const watching = this.watch();
    const end = new AbortController();
    const scripts = this.pods.map((pod) => this.runStartScript(pod, end.signal));
    this.log('first');
    await this.publish({ calm: true });
    this.log('faults');
    Object.assign(this.faults, { loss: 0.06, late: 0.06 });
    const disturbing = this.pods.map((pod) => this.disturb(pod));
    for (let i = 0; i < 6; i += 1) {
      await Promise.all(Array.from({ length: this.random.chance(0.3) ? 2 : 1 }, () => this.publish()));
    }
    this.over = true;
    this.log('over');
    await Promise.all(disturbing);
    this.log('calm');
    Object.assign(this.faults, { loss: 0, late: 0 });
    for (const pod of this.pods) pod.store.reachable = true;
    await until('every pod serves head', () => this.pods.every((pod) => this.servesHead(pod)), 20_000).catch(
      (error: unknown) => {
        this.wrong.push(
          `${String(error)}: head ${this.heads.at(-1)}, ${JSON.stringify(this.pods.map(({ state }) => state))}`,
        );
      },
    );
    await watching;
    await Promise.all(this.pods.map((pod) => pod.stop()));
    end.abort();
    await Promise.all(scripts);
    for (const { release, code } of this.runs) {
      const was = release !== undefined && this.heads.includes(release);
      if (code === 0 && release !== undefined && !was) this.wrong.push(`exit 0, but ${release} never was head`);
      if (code === 1 && was) this.wrong.push(`exit 1, but ${release} was head`);
    }
  }

  private log(text: string): void {
    if (process.env['SOAK_LOG'] === '1')
      process.stderr.write(`${this.directory.slice(-4)} ${performance.now().toFixed()} ${text}\n`);
  }

  private servesHead({ state }: Pod): boolean {
    return state?.ready === true && state.release === (this.heads.at(-1) ?? 'none') && state.trial === null;
  }

  /** The pods that are up, as a publisher reaches them until it dies. */
  private addresses(isDead: () => boolean): AgentAddress[] {
    return this.pods
      .filter(({ state }) => state !== undefined)
      .map(({ name, url }) => ({
        name,
        uid: url,
        get url(): string {
          return isDead() ? 'http://127.0.0.1:9' : url;
        },
      }));
  }

  private async publish({ calm = false } = {}): Promise<void> {
    const { random } = this;
    const folder = join(this.directory, `folder-${(this.folders += 1)}`);
    writeRepository(folder, this.randomModels());
    const own = new MemoryStore(this.bucket, this.faults);
    const stop = new AbortController();
    const run: Run = { release: undefined, code: 9 };
    this.runs.push(run);
    const put = own.putBytes.bind(own);
    own.putBytes = (key, ...rest): ReturnType<typeof put> => {
      if (key.startsWith(`${RELEASES}/2`)) run.release = key.slice(RELEASES.length + 1, -5);
      return put(key, ...rest);
    };
    let isDead = false;
    const publishing = publish({
      repository: folder,
      store: own.store,
      // One try: a late request may be applied after its publisher has failed.
      commitStore: new MemoryStore(this.bucket, this.faults, 1).store,
      location: LOCATION,
      agents: {
        describe: () => 'pods',
        // Without a replica the publish would fail at once.
        list: async () => {
          let found = this.addresses(() => isDead);
          for (; found.length === 0; found = this.addresses(() => isDead)) await sleep(10);
          if (isDead) await new Promise(() => undefined);
          return found;
        },
      },
      loadTimeoutMs: 3000,
      waitMs: 0,
      trials: { ttlSeconds: 1, leftMs: 300, pollMs: 10, timeoutMs: 3000 },
      signal: stop.signal,
    }).then(
      () => (run.code = 0),
      (error: unknown) => {
        this.log((error as Error).message);
        run.code = error instanceof PartialFailureError ? 3 : 1;
        if (!(error instanceof UserError) && !stop.signal.aborted) this.wrong.push((error as Error).stack ?? '');
      },
    );
    void publishing.then(() => this.log(`publish ${run.release} ${run.code}`));
    if (random.chance(0.2))
      void sleep(random.fraction() * 400).then(() => {
        stop.abort(new UserError('interrupted'));
      });
    if (!calm && random.chance(0.15)) {
      // Killed: it sends nothing any more.
      const killed = sleep(random.fraction() * 400).then(() => {
        isDead = true;
        own.reachable = false;
      });
      await Promise.race([publishing, killed]);
      return;
    }
    await publishing;
  }

  /** Two models; contents and labels change, and some do not load. */
  private randomModels(): Record<string, string> {
    const { random } = this;
    const tensor = (name: string): string => `${name} [{ name: "${name}" data_type: TYPE_FP32 dims: [1] }]`;
    const files: Record<string, string> = {};
    for (const name of ['a', 'b']) {
      const instances = random.integer(1, 2);
      files[`${name}/config.pbtxt`] =
        `backend: "empty"\n${tensor('input')}\n${tensor('output')}\ninstance_group [{ kind: KIND_CPU count: ${instances} }]\nversion_policy { all {} }\n`;
      const first = random.integer(1, 20);
      for (const version of random.chance(0.5) ? [first, first + 1] : [first]) {
        files[`${name}/${version}/weights`] = random.chance(0.1)
          ? `bad ${random.integer(1, 99)}`
          : `weights ${version}${random.chance(0.3) ? ' again' : ''}`;
      }
      if (random.chance(0.5)) files[`${name}/labels.txt`] = random.pick(['x\n', 'y\n']);
    }
    return files;
  }

  private async disturb(pod: Pod): Promise<void> {
    const { random } = this;
    while (!this.over) {
      await sleep(random.fraction() * 600);
      const kind = random.integer(1, 3);
      this.log(`disturb ${pod.name} ${kind}`);
      if (kind === 1) {
        await pod.stop();
        await pod.start();
      } else if (kind === 2) await pod.triton.restart(random.fraction() * 100);
      else {
        pod.store.reachable = false;
        await sleep(random.fraction() * 500);
        pod.store.reachable = true;
      }
    }
  }

  /** Restarts Triton when the agent asks for it, as its start script does. */
  private async runStartScript(pod: Pod, over: AbortSignal): Promise<void> {
    let seen = pod.restartRequest;
    while (!over.aborted) {
      const request = pod.restartRequest;
      if (request !== seen) await pod.triton.restart(300);
      seen = request;
      await sleep(20);
    }
  }

  /** What a pod reports as served is what its server has loaded. */
  private async watch(): Promise<void> {
    const isOver = (): boolean => this.over && this.pods.every((pod) => this.servesHead(pod));
    const end = Date.now() + 60_000;
    while (!isOver() && Date.now() < end) {
      for (const pod of this.pods) this.check(pod);
      await sleep(3);
    }
    for (const pod of this.pods) this.check(pod);
  }

  private check({ name, state, triton }: Pod): void {
    if (state === undefined) return;
    if (state.home !== null && state.home !== 'none' && !this.heads.includes(state.home)) {
      this.wrong.push(`${name} has home ${state.home}, which never was head`);
    }
    if (state.release === null) return;
    const manifest = this.manifests.get(state.release);
    for (const [model, { versions }] of triton.models) {
      const released = manifest?.models[model];
      const labels = released?.files.find(({ path }) => path === 'labels.txt');
      for (const { name: version, files } of released === undefined
        ? []
        : getUnits(model, released).filter((unit) => unit.isVersion)) {
        const loaded = versions.get(version);
        // The server has just restarted, and the agent has not noticed.
        if (loaded === undefined) continue;
        const wanted = this.text(files[0]?.key);
        if (loaded.content !== wanted)
          this.wrong.push(`${name} says ${state.release}, and ${model}/${version} is ${loaded.content}, not ${wanted}`);
        const label = labels === undefined ? undefined : this.text(labels.key);
        if (loaded.labels !== label)
          this.wrong.push(
            `${name} says ${state.release}, and ${model}/${version} has labels ${loaded.labels}, not ${label}`,
          );
      }
    }
  }

  private text(key: string | undefined): string | undefined {
    return key === undefined ? undefined : this.bucket.objects.get(key)?.toString();
  }
}

test(
  'publishers and agents that are disturbed agree on what is served',
  async () => {
    const counts: Record<string, number> = {};
    const wrong: string[] = [];
    const rounds = Array.from({ length: ROUNDS }, (_, i) => SOAK_SEED * 1000 + i);
    await forEachLimited(rounds, AT_A_TIME, async (seed) => {
      const round = new Round(new SeededRandom(seed), join(scratch.directory, String(seed)));
      await round.run();
      for (const { code } of round.runs) counts[`exit ${code}`] = (counts[`exit ${code}`] ?? 0) + 1;
      wrong.push(...[...new Set(round.wrong)].map((text) => `seed ${seed}: ${text}`));
    });
    report('publishes with agents', counts);
    expect(wrong).toEqual([]);
    // Otherwise a fault of the test itself, which fails every publish, would pass.
    expect(counts['exit 0']).toBeGreaterThan(0.75 * ROUNDS);
  },
  patience(12, 30_000),
);
