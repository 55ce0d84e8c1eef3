import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { sha256Hex, type Manifest, type ReleasedFile, type ManifestModel } from '../release/manifest';
import { checksumOfFile } from '../s3/source';
import type { TakeBytes } from '../s3/types';
import { checksumOfParts, splitIntoParts, type PartRange } from '../s3/checksum';

/**
 * A file or folder of a model that Triton loads as a whole: a version, or a file or folder beside the versions. The
 * store keeps each content in a folder of its own, which never changes once it is complete.
 */
export interface Unit {
  /** In the model's folder: `1`, `labels.txt`. */
  name: string;
  isVersion: boolean;
  /** Identifies model, name and content. */
  content: string;
  files: readonly ReleasedFile[];
}

/** Reads bytes of a file as `S3Store.stream` does. */
export type ReadObject = (
  file: ReleasedFile,
  range: { start: number; bytes: number },
  take: TakeBytes,
) => Promise<number>;

/** The bytes in S3 are not those that the manifest names. */
export class WrongBytesError extends UserError {
  override readonly name = 'WrongBytesError';
}

/** The units that Triton needs to serve the model. Other versions and their files are left out. */
export function getUnits(name: string, model: ManifestModel): Unit[] {
  const groups = new Map<string, ReleasedFile[]>(model.served.map((version) => [String(version), []]));
  for (const file of model.files) {
    const [first = ''] = file.path.split('/');
    const isVersion = file.path.includes('/') && /^[1-9]\d*$/.test(first);
    if (isVersion && !model.served.includes(Number(first))) continue;
    groups.set(first, [...(groups.get(first) ?? []), file]);
  }
  return [...groups].map(([unit, files]) => ({
    name: unit,
    isVersion: model.served.includes(Number(unit)),
    content: computeContent(name, unit, files),
    files,
  }));
}

export const getReleaseUnits = ({ models }: Pick<Manifest, 'models'>): Unit[] =>
  Object.entries(models).flatMap(([name, model]) => getUnits(name, model));

function computeContent(model: string, unit: string, files: readonly ReleasedFile[]): string {
  const lines = files.map(({ path, checksum }) => `${path}\0${checksum}`).sort();
  return sha256Hex([model, unit, ...lines].join('\n'));
}

export interface FillOptions {
  read: ReadObject;
  signal?: AbortSignal | undefined;
  onBytes?: ((bytes: number) => void) | undefined;
}

const TEMPORARY = 'incomplete-';

/** A part is hashed and written in pieces of this size, so that the memory does not depend on the size of parts. */
const PIECE_BYTES = 256 * 1024;

/** Parts that are read at a time: fewer than the store's connections, so that a read of head.json need not wait for them. */
export const PARTS = 48;

/** The files of the releases that a pod serves or may return to, one folder for each content. */
export class ContentStore {
  constructor(readonly directory: string) {
    mkdirSync(directory, { recursive: true });
    for (const name of readdirSync(directory)) {
      if (name.startsWith(TEMPORARY)) rmSync(join(directory, name), { recursive: true });
    }
  }

  /** Where a unit is, or will be. Its last name is that of the unit. */
  path({ content, name }: Pick<Unit, 'content' | 'name'>): string {
    return join(this.directory, content, name);
  }

  has({ content }: Pick<Unit, 'content'>): boolean {
    return existsSync(join(this.directory, content));
  }

  /** Those of `units` that are not in the store. */
  missing(units: readonly Unit[]): Unit[] {
    return units.filter((unit) => !this.has(unit));
  }

  /**
   * Adds units. Each is written under a temporary name, verified, and renamed when it is complete. A unit that is not
   * completed leaves nothing behind; if the process dies, the next one deletes it.
   * @throws WrongBytesError if the bytes of a file are not those that the manifest names
   */
  async fill(units: readonly Unit[], { read, signal, onBytes }: FillOptions): Promise<void> {
    const parts: (() => Promise<void>)[] = [];
    const targets: Target[] = [];
    const unfinished = new Set<string>();
    try {
      for (const unit of this.missing(units)) {
        const temporary = join(this.directory, `${TEMPORARY}${randomBytes(8).toString('hex')}`);
        const root = join(temporary, unit.name);
        unfinished.add(temporary);
        await mkdir(unit.isVersion ? root : temporary, { recursive: true });
        const finish = async (): Promise<void> => {
          // A loss of power must not leave a complete name with incomplete files.
          const folders = unit.files.map(({ path }) => dirname(join(temporary, path)));
          for (const folder of new Set([...folders, temporary])) await syncFolder(folder);
          await rename(temporary, join(this.directory, unit.content));
          unfinished.delete(temporary);
        };
        let left = unit.files.length;
        if (left === 0) await finish();
        for (const file of unit.files) {
          const target = new Target(join(temporary, file.path), file);
          targets.push(target);
          for (const part of splitIntoParts(file.bytes)) {
            parts.push(async () => {
              if (!(await target.copy(part, { read, signal, onBytes }))) return;
              left -= 1;
              if (left === 0) await finish();
            });
          }
        }
      }
      await forEachLimited(parts, PARTS, (part) => part());
      await syncFolder(this.directory);
    } finally {
      await Promise.all(targets.map((target) => target.close()));
      for (const path of unfinished) await rm(path, { recursive: true, force: true });
    }
  }

  /**
   * Deletes those of `units` whose files are not those of the release, as after a loss of power.
   * @returns their names
   */
  async deleteDamaged(units: readonly Unit[]): Promise<string[]> {
    const damaged: string[] = [];
    for (const { content, name, files } of units) {
      const folder = join(this.directory, content);
      const checksums = await Promise.all(
        files.map(({ path, bytes }) => checksumOfFile(join(folder, path), bytes).catch(() => undefined)),
      );
      if (files.every(({ checksum }, i) => checksum === checksums[i])) continue;
      await rm(folder, { recursive: true, force: true });
      damaged.push(name);
    }
    return damaged;
  }

  /** Deletes every content but these. */
  async keep(units: readonly Unit[]): Promise<void> {
    const kept = new Set(units.map(({ content }) => content));
    for (const name of await readdir(this.directory)) {
      if (!kept.has(name)) await rm(join(this.directory, name), { recursive: true, force: true });
    }
  }
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path);
  await handle.sync().finally(() => handle.close());
}

/** A file that is written part by part, in any order. */
class Target {
  private readonly digests: Buffer[] = [];
  private opened: Promise<FileHandle> | undefined;
  private left: number;

  constructor(
    private readonly path: string,
    private readonly file: ReleasedFile,
  ) {
    this.left = splitIntoParts(file.bytes).length;
  }

  /**
   * Reads, hashes and writes one part.
   * @returns whether the file is complete
   */
  async copy(part: PartRange, { read, signal, onBytes }: FillOptions): Promise<boolean> {
    const { file } = this;
    const buffer = Buffer.allocUnsafeSlow(Math.min(part.bytes, PIECE_BYTES));
    const hash = createHash('sha256');
    let at = part.start;
    let filled = 0;
    const write = async (): Promise<void> => {
      signal?.throwIfAborted();
      const piece = buffer.subarray(0, filled);
      hash.update(piece);
      await this.write(piece, at);
      at += filled;
      filled = 0;
    };
    const add = (chunk: Buffer, from = 0): Promise<void> | undefined => {
      const end = from + chunk.copy(buffer, filled, from);
      filled += end - from;
      return filled < buffer.byteLength ? undefined : write().then(() => add(chunk, end));
    };
    const take = (chunk: Buffer): Promise<void> | undefined => {
      if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
      onBytes?.(chunk.byteLength);
      return add(chunk);
    };
    signal?.throwIfAborted();
    const count = part.bytes === 0 ? 0 : await read(file, part, take);
    if (count !== part.bytes) this.refuse(`it ends after ${part.start + count} of ${file.bytes} bytes`);
    if (filled > 0) await write();
    if (part.bytes === 0) await this.open();
    this.digests[part.number - 1] = hash.digest();
    this.left -= 1;
    if (this.left > 0) return false;
    await (await this.opened)?.datasync();
    await this.close();
    const checksum = checksumOfParts(this.digests);
    if (checksum !== file.checksum) this.refuse(`checksum ${checksum} instead of ${file.checksum}`);
    return true;
  }

  private async write(piece: Buffer, start: number): Promise<void> {
    const handle = await this.open();
    for (let done = 0; done < piece.byteLength;) {
      done += (await handle.write(piece, done, piece.byteLength - done, start + done)).bytesWritten;
    }
  }

  private open(): Promise<FileHandle> {
    this.opened ??= mkdir(dirname(this.path), { recursive: true }).then(() => open(this.path, 'wx', 0o644));
    return this.opened;
  }

  async close(): Promise<void> {
    const handle = await this.opened?.catch(() => undefined);
    this.opened = undefined;
    await handle?.close();
  }

  private refuse(got: string): never {
    throw new WrongBytesError(`${this.file.key} does not have the bytes of the release: ${got}`, {
      hint: 'delete that object, and publish the model again from its folder',
    });
  }
}
