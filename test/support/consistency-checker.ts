import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { S3Store } from '../../src/s3/store';

/** Key under the repository prefix -> SHA-256 of the bytes, in hex. */
export type Snapshot = Map<string, string>;

export const sha256 = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex');

/** All objects under a prefix, which ends in a slash, with the digests of their content. */
export async function snapshot(store: S3Store, prefix: string): Promise<Snapshot> {
  const found: Snapshot = new Map();
  for (const { key } of await store.list(prefix)) {
    const object = await store.get(key);
    if (object === undefined) throw new Error(`${key} is listed and cannot be read`);
    found.set(key.slice(prefix.length), sha256(object.body));
  }
  return found;
}

/** An allowed state of a model, identified by its config.pbtxt. */
export interface ModelState {
  /** Undefined if there is no configuration. */
  config: string | undefined;
  /** Required objects: key under the prefix -> SHA-256. */
  needs: Snapshot;
  /** Models in the steps of an ensemble, which are also required. */
  composedOf: string[];
}

/** The allowed states of each model while a repository changes. */
export interface Expected {
  models: Map<string, ModelState[]>;
  /** Files beside the version folders, which change before or after the configuration: key -> allowed SHA-256s. */
  beside: Map<string, string[]>;
}

/** Larger objects are read only once per ETag. */
const READ_AGAIN_BYTES = 1024 * 1024;
const PAUSE_MS = 5;

/**
 * Reads a repository repeatedly, like a starting server. All files that a configuration names must exist and be
 * complete.
 */
export class ConsistencyChecker {
  readonly violations: string[] = [];
  /** How often the whole repository was read. */
  looks = 0;
  /** Distinct sets of configurations that were read. */
  readonly states = new Set<string>();
  private readonly known = new Map<string, string>();
  private running: Promise<void> | undefined;
  private stopping = false;
  private publishers = 0;

  constructor(
    private readonly store: S3Store,
    /** Ends in a slash. */
    private readonly prefix: string,
    private readonly expected: Expected,
  ) {}

  start(): void {
    this.running = this.run();
  }

  /** Call for each publisher that starts: reads before and after the start do not belong to one change. */
  noteStart(): void {
    this.publishers += 1;
  }

  async stop(): Promise<void> {
    this.stopping = true;
    await this.running;
  }

  private async run(): Promise<void> {
    while (!this.stopping) {
      await this.look();
      await sleep(PAUSE_MS);
    }
  }

  /** Reads every model once. */
  async look(): Promise<void> {
    const seen: string[] = [];
    for (const [model, states] of this.expected.models) {
      const publishers = this.publishers;
      const text = await this.config(model);
      seen.push(sha256(text ?? ''));
      const possible = states.filter(({ config }) => config === text);
      if (possible.length === 0) {
        this.violations.push(`${model}/config.pbtxt is neither the old nor the new one:\n${text ?? 'not there'}`);
      }
      if (text === undefined || possible.length === 0) continue;
      const wrong = await this.wrongIn(model, possible);
      // If the configuration was replaced in the meantime, the files that were read may belong to the new one.
      if (wrong.length === 0 || publishers !== this.publishers || (await this.config(model)) !== text) continue;
      this.violations.push(...wrong.map((what) => `${what}, while ${model}/config.pbtxt is\n${text}`));
    }
    this.looks += 1;
    this.states.add(seen.join());
  }

  /** The faults of all states, or none if one state is complete. */
  private async wrongIn(model: string, states: readonly ModelState[]): Promise<string[]> {
    const listed = new Map((await this.store.list(`${this.prefix}${model}/`)).map((object) => [object.key, object]));
    const hashes = new Map<string, string>();
    for (const { key, etag, bytes } of listed.values()) {
      hashes.set(key.slice(this.prefix.length), await this.hash(key, etag, bytes));
    }
    const faults = await Promise.all(states.map((state) => this.getFaults(model, state, hashes)));
    return faults.some((found) => found.length === 0) ? [] : faults.flat();
  }

  private async getFaults(model: string, { needs, composedOf }: ModelState, hashes: Snapshot): Promise<string[]> {
    const beside = [...this.expected.beside].filter(([key]) => key.startsWith(`${model}/`));
    const needed = [...[...needs].map(([key, hash]): [string, string[]] => [key, [hash]]), ...beside];
    const faults = needed.flatMap(([key, right]) => {
      const found = hashes.get(key);
      if (found === undefined) return [`${key} is missing`];
      return right.includes(found) ? [] : [`${key} has wrong bytes`];
    });
    for (const step of composedOf) {
      if ((await this.config(step)) === undefined) faults.push(`${model} is made of ${step}, which is not there`);
    }
    return faults;
  }

  private async config(model: string): Promise<string | undefined> {
    return (await this.store.get(`${this.prefix}${model}/config.pbtxt`))?.body.toString();
  }

  private async hash(key: string, etag: string, bytes: number): Promise<string> {
    const known = this.known.get(`${key} ${etag}`);
    if (known !== undefined && bytes > READ_AGAIN_BYTES) return known;
    const body = (await this.store.get(key))?.body;
    if (body === undefined) return 'it is gone';
    const hash = sha256(body);
    this.known.set(`${key} ${etag}`, hash);
    return hash;
  }
}
