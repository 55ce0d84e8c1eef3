import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Agent, type AgentOptions } from '../../src/agent/agent';
import { startControlApi, type Listener } from '../../src/agent/control-api';
import type { AgentEvent } from '../../src/agent/events';
import type { AgentState } from '../../src/release/agent-api';
import { encodeHead, parseHead, type Head } from '../../src/release/head';
import { encodeGolden, type GoldenRequest } from '../../src/model/golden';
import { fileKey, releasesPrefix } from '../../src/release/location';
import {
  encodeManifest,
  sha256Hex,
  type Manifest,
  type ReleasedFile,
  type ManifestModel,
} from '../../src/release/manifest';
import { checksumOfBytes, type S3Store } from '../../src/s3/store';
import type { Scratch } from './temp-dir';
import { testTriton, type TestTriton } from './triton';

/** The repository of test agents. Their stores know the real bucket. */
export const LOCATION = { bucket: 'any', prefix: 'models' };
const RELEASES = releasesPrefix(LOCATION);

/** A model of the empty backend: its files in version folders and beside them, by path. */
export interface TestModel extends Pick<ManifestModel, 'compiled'> {
  served: number[];
  files: Record<string, string>;
  composedOf?: string[];
  config?: string;
  golden?: GoldenRequest[];
}

export interface WrittenRelease {
  id: string;
  manifestSha256: string;
  secret: string;
  base: number;
}

let ids = 0;

/** Writes releases as a publisher does. */
export class ReleaseWriter {
  constructor(private readonly store: S3Store) {}

  async readHead(): Promise<Head | undefined> {
    const found = await this.store.get(`${RELEASES}/head.json`);
    return found === undefined ? undefined : parseHead(found.body, 'head.json');
  }

  /** @param change falsifies the manifest */
  async write(
    models: Record<string, TestModel>,
    change = (file: ReleasedFile): ReleasedFile => file,
    more: Pick<Manifest, 'unloadFirst'> = {},
  ): Promise<WrittenRelease> {
    const head = await this.readHead();
    const secret = randomBytes(16).toString('hex');
    ids += 1;
    const manifest: Manifest = {
      id: `20261124T0000000${String(ids).padStart(2, '0')}Z-0000000a`,
      createdAt: new Date().toISOString(),
      previous: head?.release,
      origin: 'test',
      by: 'test',
      base: head?.generation ?? 0,
      trialKey: sha256Hex(secret),
      ...more,
      models: Object.fromEntries(
        await Promise.all(
          Object.entries(models).map(async ([name, model]) => [name, await this.upload(name, model, change)]),
        ),
      ) as Record<string, ManifestModel>,
      former: [],
    };
    const body = encodeManifest(manifest);
    await this.store.putBytes(`${RELEASES}/${manifest.id}.json`, body, { ifAbsent: true });
    return { id: manifest.id, manifestSha256: sha256Hex(body), secret, base: manifest.base };
  }

  private async upload(
    name: string,
    { served, files, composedOf = [], compiled, config, golden }: TestModel,
    change: (file: ReleasedFile) => ReleasedFile,
  ): Promise<ManifestModel> {
    const written = Object.entries(files).map(async ([path, text]) =>
      change(await this.putFile(path, Buffer.from(text))),
    );
    const tensors = ['input', 'output'].map((kind) => `${kind} [{ name: "${kind}" data_type: TYPE_FP32 dims: [1] }]`);
    return {
      served,
      composedOf,
      compiled,
      config: config ?? `name: "${name}" backend: "empty" ${tensors.join(' ')} instance_group [{ kind: KIND_CPU }]\n`,
      files: await Promise.all(written),
      golden: golden && change(await this.putFile('golden.json', encodeGolden(golden))),
    };
  }

  private async putFile(path: string, body: Buffer): Promise<ReleasedFile> {
    const checksum = checksumOfBytes(body);
    const key = fileKey(LOCATION, checksum, 0);
    await this.store.putBytes(key, body);
    return { path, key, bytes: body.byteLength, checksum };
  }

  /** Makes the release the current one. */
  async commit({ id, manifestSha256 }: WrittenRelease): Promise<void> {
    const before = await this.readHead();
    await this.store.putBytes(
      `${RELEASES}/head.json`,
      encodeHead({
        generation: (before?.generation ?? 0) + 1,
        release: id,
        manifestSha256,
        retained: [...(before?.retained ?? []), id],
        sweep: 0,
        writer: 'test',
      }),
    );
  }
}

/** A real Triton with an agent beside it, which a test can restart, and the agent's control API. */
export class TestAgent {
  events: AgentEvent[] = [];
  url = '';
  private agent: Agent | undefined;
  private api: Listener | undefined;
  private stopping = new AbortController();
  private running = Promise.resolve();

  private constructor(
    scratch: Scratch,
    readonly directory: string,
    public triton: TestTriton,
  ) {
    scratch.defer(() => this.stop());
  }

  /** Starts Triton. Its only backend is the empty one. */
  static async create(scratch: Scratch, name: string): Promise<TestAgent> {
    const directory = join(scratch.directory, name);
    mkdirSync(join(directory, 'models'), { recursive: true });
    const options = { load: [], name: `${name}-triton`, hasEmptyBackend: true };
    return new TestAgent(scratch, directory, await testTriton(scratch, join(directory, 'models'), options));
  }

  get state(): AgentState {
    if (this.agent === undefined) throw new Error('the agent does not run');
    return this.agent.getState();
  }

  async start(store: S3Store, options: Partial<AgentOptions> = {}): Promise<void> {
    this.stopping = new AbortController();
    this.agent = new Agent({
      store,
      location: LOCATION,
      directory: this.directory,
      triton: this.triton.client,
      loadTimeoutMs: 60_000,
      pollMs: 300,
      spreadMs: 0,
      leaveMs: 1000,
      onEvent: (event) => this.events.push(event),
      ...options,
    });
    this.running = this.agent.run(this.stopping.signal);
    this.api = await startControlApi(this.agent, 0);
    this.url = `http://127.0.0.1:${this.api.port}`;
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.api?.close();
    await this.running;
    this.api = undefined;
  }

  /** Kills Triton, and starts another one in its place as a kubelet does. */
  async restartTriton(): Promise<void> {
    this.triton.expectEnd();
    process.kill(this.triton.pid as number, 'SIGKILL');
    await this.triton.ended;
    this.triton = await this.triton.startAgain();
  }

  /** Sends a request to the control API. */
  async send(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Answer['body'] };
  }

  /** Has the agent try a release. Models are not asked, because the empty backend answers no requests. */
  async try({ id: release, ...written }: WrittenRelease, change: object = {}): Promise<Answer & { id: string }> {
    const id = randomBytes(8).toString('hex');
    const { stateTag } = this.state;
    const request = { id, release, ...written, ttlSeconds: 60, by: 'test', ask: false, stateTag, ...change };
    return { id, ...(await this.send('POST', '/v1/trials', request)) };
  }

  /** Models that the agent had Triton load since `events` was emptied. */
  loads(): unknown[] {
    return this.events.filter(({ event }) => event === 'load').map(({ model }) => model);
  }
}

interface Answer {
  status: number;
  body: Record<string, unknown>;
}
