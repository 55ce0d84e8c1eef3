import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Model -> the versions that Triton serves; none of them during a switch, when any version answers. */
export type ServedVersions = Readonly<Record<string, readonly number[]>>;

/**
 * What clients can request of the Triton of this pod, one path of its HTTP API in each line. The readiness probe asks Triton
 * for each of them (infra/triton/agent/probe.sh), so an agent that ends or hangs takes no pod out of the Service. Without the
 * file the pod gets no requests. A new agent keeps the file until it knows better.
 */
export class ServingFile {
  private lines: readonly string[] | undefined;
  private readonly path: string;

  constructor(directory: string) {
    this.path = join(directory, 'serving');
    if (existsSync(this.path)) this.lines = readFileSync(this.path, 'utf8').trim().split('\n');
  }

  /** Whether the pod gets requests as long as Triton answers. */
  get exists(): boolean {
    return this.lines !== undefined;
  }

  /** During a switch to `models`: only models that clients can request before and after it, in any version. */
  keepOnly(models: Readonly<Record<string, unknown>>): void {
    const names = new Set(this.lines?.flatMap((line) => /^models\/([^/]+)\//.exec(line)?.[1] ?? []));
    if (this.exists)
      this.write(
        Object.keys(models).flatMap((name) => (names.has(encode(name)) ? [`models/${encode(name)}/ready`] : [])),
      );
  }

  /** @param models the release that Triton serves now */
  serve(models: ServedVersions): void {
    this.write(
      Object.entries(models).flatMap(([name, versions]) =>
        versions.map((version) => `models/${encode(name)}/versions/${version}/ready`),
      ),
    );
  }

  /** The pod gets no requests until `serve` is called. */
  remove(): void {
    this.lines = undefined;
    rmSync(this.path, { force: true });
  }

  private write(models: readonly string[]): void {
    const lines = ['health/ready', ...models];
    if (lines.join() === this.lines?.join()) return;
    const temporary = `${this.path}.unfinished`;
    writeFileSync(temporary, `${lines.join('\n')}\n`);
    renameSync(temporary, this.path);
    this.lines = lines;
  }
}

const encode = encodeURIComponent;
