import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentTriton } from '../../src/agent/agent';
import { TritonError, type InferResult, type ModelIndexEntry, type ModelStatistics } from '../../src/triton/client';

interface Loaded {
  /** Newest time of the model when it was loaded. */
  newest: bigint;
  /** Newest time of the files beside the versions when it was loaded. */
  beside: bigint;
  labels: string | undefined;
  versions: Map<string, { time: bigint; content: string; labels: string | undefined }>;
}

/**
 * Loads models from a folder by the rules of test/proof/Switch.tla. test/real/triton-reload.test.ts shows that the
 * real server follows them. A content that begins with "bad" does not load.
 */
export class RuleTriton implements AgentTriton {
  /** By model. */
  readonly models = new Map<string, Loaded>();
  private up = true;

  constructor(private readonly repository: string) {}

  /** Ends the server for a time. It starts without models. */
  async restart(ms: number): Promise<void> {
    this.up = false;
    this.models.clear();
    await sleep(ms);
    this.up = true;
  }

  async repositoryIndex(): Promise<ModelIndexEntry[]> {
    await this.answer();
    return [...this.models].flatMap(([name, { versions }]) =>
      [...versions.keys()].map((version) => ({ name, version, state: 'READY', reason: '' })),
    );
  }

  async loadModel(model: string): Promise<void> {
    await this.answer();
    const folder = join(this.repository, model);
    if (!existsSync(folder)) throw refused(`failed to load '${model}', no version is available`);
    const names = readdirSync(folder).filter((name) => !name.endsWith('.unfinished'));
    const served = [
      ...(/versions: \[([^\]]*)\]/.exec(readFileSync(join(folder, 'config.pbtxt'), 'utf8'))?.[1] ?? '').matchAll(
        /\d+/g,
      ),
    ].map(String);
    const before = this.models.get(model);
    const times = new Map(names.map((name) => [name, getTime(join(folder, name))]));
    const newest = max([...times.values()]);
    if (before !== undefined && newest <= before.newest) return this.answer();
    const beside = max(
      [...times].filter(([name]) => !/^\d+$/.test(name) && name !== 'config.pbtxt').map(([, time]) => time),
    );
    const labelFile = join(folder, 'labels.txt');
    const labels = existsSync(labelFile) ? readFileSync(labelFile, 'utf8') : undefined;
    const versions: Loaded['versions'] = new Map();
    for (const version of served) {
      const time = times.get(version) ?? 0n;
      const old = before?.versions.get(version);
      if (old !== undefined && max([time, beside]) <= max([old.time, before?.beside ?? 0n])) {
        versions.set(version, old);
        continue;
      }
      const content = existsSync(join(folder, version, 'weights'))
        ? readFileSync(join(folder, version, 'weights'), 'utf8')
        : '';
      if (content === '' || content.startsWith('bad'))
        throw refused(`failed to load '${model}' version ${version}: ${content}`);
      versions.set(version, { time, content, labels });
    }
    const loaded: Loaded = { newest, beside, labels, versions };
    this.models.set(model, loaded);
    await this.answer(); // The server may end before the answer.
  }

  async unloadModel(model: string): Promise<void> {
    await this.answer();
    this.models.delete(model);
  }

  async modelReady(model: string, version = 0): Promise<boolean> {
    await this.answer();
    return this.models.get(model)?.versions.has(String(version)) === true;
  }

  async modelConfig(): Promise<Record<string, unknown>> {
    await this.answer();
    const tensor = { data_type: 'TYPE_FP32', dims: [1] };
    const instances = [{ kind: 'KIND_CPU' }];
    return {
      input: [{ name: 'input', ...tensor }],
      output: [{ name: 'output', ...tensor }],
      instance_group: instances,
    };
  }

  /** No client sends requests. */
  async statistics(): Promise<ModelStatistics[]> {
    await this.answer();
    return [];
  }

  /** A content that begins with "wrong" gives an answer of another shape than the configuration names. */
  async infer(model: string, _: unknown, { version = 0 }: { version?: number } = {}): Promise<InferResult> {
    await this.answer();
    const { content = '' } = this.models.get(model)?.versions.get(String(version)) ?? {};
    if (content === '') throw refused(`${model} version ${version} is not served`);
    const data = new Float32Array(content.startsWith('wrong') ? 2 : 1);
    const outputs = [{ name: 'output', datatype: 'FP32' as const, shape: [data.length], data }];
    return { model, version: String(version), outputs };
  }

  private async answer(): Promise<void> {
    if (!this.up) throw new TritonError('connection refused', { status: 'unreachable' });
  }
}

const refused = (message: string): TritonError => new TritonError(message, { status: 'HTTP 400', answered: true });

/** The later one of modification and change time; of a folder, that of its files too. */
function getTime(path: string): bigint {
  const stat = statSync(path, { bigint: true });
  const own = max([stat.mtimeNs, stat.ctimeNs]);
  if (!stat.isDirectory()) return own;
  return max([own, ...readdirSync(path).map((name) => getTime(join(path, name)))]);
}

const max = (times: readonly bigint[]): bigint => times.reduce((a, b) => (a > b ? a : b), 0n);
