import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Agent } from '../../src/agent/agent';
import { startControlApi, type Listener } from '../../src/agent/control-api';
import type { Replica } from '../../src/publish/cluster/source';
import type { AgentState } from '../../src/release/agent-api';
import type { RepositoryLocation } from '../../src/release/location';
import type { S3Store } from '../../src/s3/store';
import { RuleTriton } from './rule-triton';
import type { Scratch } from './temp-dir';

/** A pod: an agent beside a server that loads by Triton's rules. */
export class RulePod {
  readonly triton: RuleTriton;
  readonly agent: Agent;
  private readonly stopping = new AbortController();

  private constructor(
    readonly directory: string,
    store: S3Store,
    location: RepositoryLocation,
  ) {
    mkdirSync(join(directory, 'models'), { recursive: true });
    this.triton = new RuleTriton(join(directory, 'models'));
    this.agent = new Agent({
      ...{ store, location, directory, triton: this.triton },
      loadTimeoutMs: 10_000,
      pollMs: 100,
      spreadMs: 0,
      watchMs: 50,
      retryMs: 50,
      leaveMs: 100,
    });
  }

  private api: Listener | undefined;

  static async start(scratch: Scratch, name: string, store: S3Store, location: RepositoryLocation): Promise<RulePod> {
    const pod = new RulePod(join(scratch.directory, name), store, location);
    const running = pod.agent.run(pod.stopping.signal);
    pod.api = await startControlApi(pod.agent, 0);
    scratch.defer(async () => {
      pod.stopping.abort();
      await pod.api?.close();
      await running;
    });
    return pod;
  }

  get name(): string {
    return basename(this.directory);
  }

  get replica(): Replica {
    const { name } = this;
    return { name, uid: name, url: `http://127.0.0.1:${this.api?.port}`, tritonUrl: 'http://127.0.0.1:9', ready: true };
  }

  get state(): AgentState {
    return this.agent.getState();
  }

  /** Versions and contents that the server serves. */
  get served(): Record<string, string> {
    return Object.fromEntries(
      [...this.triton.models].flatMap(([model, { versions }]) =>
        [...versions].map(([version, { content }]) => [`${model}/${version}`, content]),
      ),
    );
  }
}
