import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONTROL_KEY, generateControlKey } from '../triton/control-key';

export const UNFINISHED = '.unfinished';

/** Puts a new file or link in the place of `path`, in one step. */
export function replace(path: string, write: (temporary: string) => void): void {
  const temporary = `${path}${UNFINISHED}`;
  rmSync(temporary, { force: true });
  write(temporary);
  renameSync(temporary, path);
}

export const replaceFile = (path: string, content: string | Buffer): void =>
  replace(path, (temporary) => writeFileSync(temporary, content));

/** Name of the file with the key of Triton's model control API, in the agent's folder. */
export const KEY_FILE = 'control-key';

/**
 * The key of Triton's model control API, random for each pod. Triton's start script waits for this file, so it appears
 * with its content. Everyone in the containers of the pod can read it.
 */
export function readKey(directory: string): string {
  const path = join(directory, KEY_FILE);
  if (existsSync(path)) {
    const key = readFileSync(path, 'utf8').trim();
    if (CONTROL_KEY.test(key)) return key;
  }
  mkdirSync(directory, { recursive: true });
  const key = generateControlKey();
  replace(path, (temporary) => {
    writeFileSync(temporary, `${key}\n`);
    chmodSync(temporary, 0o444);
  });
  return key;
}

/**
 * Name of the file in the agent's folder by which the agent has Triton restarted: each change of its content asks for
 * one restart. A container cannot end a process of another one, and Triton's container reads this folder only.
 */
export const RESTART_FILE = 'restart-triton';

/** Requests a restart from the start script of Triton, infra/triton/agent/start-triton.sh. */
export function requestRestart(directory: string): void {
  replaceFile(join(directory, RESTART_FILE), `${randomBytes(8).toString('hex')}\n`);
}

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
    replaceFile(this.path, `${lines.join('\n')}\n`);
    this.lines = lines;
  }
}

const encode = encodeURIComponent;

/** Enough for the notes, links and configurations of hundreds of models. */
const SPARE_BYTES = 2 * 1024 * 1024;

/**
 * Space on the agent's disk that is kept for the way back to the release that was served: if the disk becomes full during
 * a trial, links and notes could not be written, and the pod would serve nothing.
 */
export class SpareSpace {
  private readonly path: string;

  constructor(directory: string) {
    this.path = join(directory, 'spare');
  }

  /** Keeps the space, unless the disk is full. */
  keep(): void {
    if (existsSync(this.path)) return;
    try {
      replaceFile(this.path, Buffer.alloc(SPARE_BYTES, 1)); // Zeros may take no space.
    } catch {
      rmSync(`${this.path}${UNFINISHED}`, { force: true }); // Tried again when files were deleted.
    }
  }

  /** Frees the space if this is the error of a full disk. */
  freeAfter(error: unknown): void {
    for (let cause = error as NodeJS.ErrnoException | undefined; cause; cause = cause.cause as typeof cause) {
      if (cause.code === 'ENOSPC') rmSync(this.path, { force: true });
    }
  }
}
