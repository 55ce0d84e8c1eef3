import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { UserError } from '../../core/errors';
import { computeSha256 } from '../../core/sha256';
import { displayPath } from '../../model/paths';
import { cacheRoot } from '../../install/cache';
import { openSource } from './open';
import { WEIGHTS_FILE, type Pinned, type WeightsFile } from '../../model/weights-file';

export interface FetchOptions {
  /** The model folder. */
  folder: string;
  /** Called with the number of bytes received so far, for progress. */
  onBytes: (name: string, bytes: number) => void;
}

/**
 * Returns the value of `context.weights` for a source in weights.yaml: a file in the cache, a file in the repository,
 * or `owner/name@COMMIT`, which trace.py passes to Hugging Face's library.
 * @throws UserError if the source is not available or its SHA-256 differs
 */
export async function fetchWeights({ source, sha256 }: Pinned, options: FetchOptions): Promise<string> {
  if (source.kind === 'hub' && source.file === undefined) return `${source.repository}@${source.revision}`;
  if (source.kind === 'path') {
    const file = resolve(options.folder, source.text);
    await requireContent(file, sha256, options.folder, 'correct the path or the SHA-256');
    return file;
  }
  // One folder per content, so that the file keeps its name, which the trace record contains.
  const file = join(cacheRoot(), 'weights', sha256 ?? '', basename(new URL(source.text).pathname));
  if (existsSync(file) && (await computeSha256(file)) === sha256) return file;
  await download({ source, sha256 }, file, options);
  return file;
}

/** Downloads the `files` of a weights.yaml that are missing in the model folder. Returns their number. */
export async function fetchFiles({ files }: WeightsFile, options: FetchOptions): Promise<number> {
  let fetched = 0;
  for (const [name, pinned] of files) {
    const target = join(options.folder, name);
    if (existsSync(target)) {
      await requireContent(
        target,
        pinned.sha256,
        options.folder,
        'delete the file to download it again, put the new content into a new version folder, or correct the SHA-256',
      );
      continue;
    }
    await download(pinned, target, options);
    fetched += 1;
  }
  return fetched;
}

/** Writes the bytes of a source to `target` atomically. */
async function download({ source, sha256 }: Pinned, target: string, { folder, onBytes }: FetchOptions): Promise<void> {
  mkdirSync(dirname(target), { recursive: true });
  // Files whose names start with a dot are neither published nor taken for an artifact.
  const partial = join(dirname(target), `.${randomUUID()}.tmp`);
  try {
    const hash = createHash('sha256');
    const file = await open(partial, 'wx');
    let bytes = 0;
    try {
      for await (const chunk of openSource(source, folder)) {
        hash.update(chunk);
        await file.writeFile(chunk);
        onBytes(basename(target), (bytes += chunk.byteLength));
      }
    } finally {
      await file.close();
    }
    const received = hash.digest('hex');
    if (sha256 !== undefined && received !== sha256) {
      throw new UserError(`${source.text} has SHA-256 ${received}; ${WEIGHTS_FILE} requires ${sha256}`, {
        hint: `to accept the new content, write its SHA-256 into ${displayPath(join(folder, WEIGHTS_FILE))}`,
      });
    }
    renameSync(partial, target);
  } catch (error) {
    rmSync(partial, { force: true });
    removeIfEmpty(dirname(target));
    throw error;
  }
}

/** Removes an empty version folder, which would be a version without a model. */
function removeIfEmpty(folder: string): void {
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}

const LFS_POINTER = 'version https://git-lfs.github.com/spec/';

/** @throws UserError if the file is missing, is a pointer of Git LFS, or has other content */
async function requireContent(file: string, sha256: string | undefined, folder: string, hint: string): Promise<void> {
  const name = displayPath(file);
  if (!existsSync(file)) {
    throw new UserError(`${name} is missing`, { hint: `add the file, or correct its path in ${WEIGHTS_FILE}` });
  }
  if (statSync(file).isDirectory()) {
    if (sha256 === undefined) return;
    throw new UserError(`${name} is a folder, which has no SHA-256`, { hint: `remove sha256 from ${WEIGHTS_FILE}` });
  }
  if (await isPointer(file)) {
    throw new UserError(`${name} is a pointer of Git LFS, not the file itself`, {
      hint: 'run git lfs pull; in CI, use actions/checkout with lfs: true',
    });
  }
  if (sha256 === undefined) return;
  const received = await computeSha256(file);
  if (received === sha256) return;
  throw new UserError(
    `${name} has SHA-256 ${received}; ${displayPath(join(folder, WEIGHTS_FILE))} requires ${sha256}`,
    {
      hint,
    },
  );
}

async function isPointer(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(LFS_POINTER.length), 0, LFS_POINTER.length, 0);
    return buffer.subarray(0, bytesRead).toString('latin1') === LFS_POINTER;
  } finally {
    await file.close();
  }
}
