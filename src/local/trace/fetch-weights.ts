import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../core/errors';
import { computeSha256 } from '../../core/sha256';
import { cacheRoot } from '../install/cache';
import { displayPath, getReason } from '../../model/paths';
import { parseS3Url, WEIGHTS_FILE, type Download } from '../../model/weights-file';
import { S3Store } from '../../s3/store';

const ATTEMPTS = 3;
const PAUSE_MS = 1000;

export interface FetchOptions {
  /** The model folder. */
  folder: string;
  /** Called with the number of bytes received so far, for progress. */
  onBytes: (name: string, bytes: number) => void;
}

/**
 * Downloads a file into the model folder or, if the entry names none, into the cache. An existing file is kept.
 * @throws UserError if the file cannot be downloaded, or if the existing or received content has another SHA-256
 */
export async function fetchFile(
  download: Download,
  options: FetchOptions,
): Promise<{ path: string; isDownloaded: boolean }> {
  const { url, sha256, file } = download;
  // One folder per content, so that the file keeps its name, which the trace record contains.
  const cached = join(cacheRoot(), 'weights', sha256, basename(new URL(url).pathname));
  const path = file === undefined ? cached : join(options.folder, file);
  if (existsSync(path)) {
    const found = await computeSha256(path);
    if (found === sha256) return { path, isDownloaded: false };
    if (file !== undefined) {
      const hint = 'delete it to download it again, use a new version folder, or correct the SHA-256';
      throw otherContent(displayPath(path), found, download, options.folder, hint);
    }
  }
  await write(download, path, options);
  return { path, isDownloaded: true };
}

/** Writes the bytes of a download to `target` atomically. */
async function write(download: Download, target: string, { folder, onBytes }: FetchOptions): Promise<void> {
  mkdirSync(dirname(target), { recursive: true });
  // Files whose names start with a dot are neither published nor taken for an artifact.
  const partial = join(dirname(target), `.${randomUUID()}.tmp`);
  try {
    const hash = createHash('sha256');
    const file = await open(partial, 'wx');
    let bytes = 0;
    try {
      for await (const chunk of read(download.url)) {
        hash.update(chunk);
        await file.writeFile(chunk);
        onBytes(basename(target), (bytes += chunk.byteLength));
      }
    } finally {
      await file.close();
    }
    const received = hash.digest('hex');
    if (received !== download.sha256) {
      const hint = `to accept the new content, write its SHA-256 into ${WEIGHTS_FILE}`;
      throw otherContent(download.url, received, download, folder, hint);
    }
    renameSync(partial, target);
  } catch (error) {
    rmSync(partial, { force: true });
    // An empty version folder would be a version without a model.
    if (readdirSync(dirname(target)).length === 0) rmdirSync(dirname(target));
    throw error;
  }
}

function otherContent(what: string, found: string, { sha256 }: Download, folder: string, hint: string): UserError {
  return new UserError(`${what} has SHA-256 ${found}; ${displayPath(join(folder, WEIGHTS_FILE))} requires ${sha256}`, {
    hint,
  });
}

/** Yields the bytes at an address, in order. */
async function* read(url: string): AsyncGenerator<Uint8Array> {
  const object = parseS3Url(url);
  if (object !== undefined) {
    const store = new S3Store({ bucket: object.bucket });
    try {
      yield* store.read(object.key);
    } finally {
      store.close();
    }
    return;
  }
  const answer = await request(url);
  try {
    if (answer.body !== null) yield* answer.body as unknown as AsyncIterable<Uint8Array>;
  } catch (error) {
    const message = `the download of ${url} was interrupted: ${getCause(error)}`;
    throw new UserError(message, { hint: 'run the command again', cause: error });
  }
}

async function request(url: string): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    let failure: UserError;
    try {
      const answer = await fetch(url);
      if (answer.ok) return answer;
      await answer.body?.cancel();
      failure = new UserError(`cannot download ${url}: the server answered ${answer.status}`, {
        hint: `check the address in ${WEIGHTS_FILE}; copy files that need a password to S3`,
      });
      if (answer.status < 500 && answer.status !== 429) throw failure;
    } catch (error) {
      if (error instanceof UserError) throw error;
      const hint = 'check the address and the network';
      failure = new UserError(`cannot reach ${url}: ${getCause(error)}`, { hint, cause: error });
    }
    if (attempt === ATTEMPTS) throw failure;
    await sleep(PAUSE_MS * attempt);
  }
}

/** Returns the reason in the cause of a fetch error, because the error itself only says that fetch failed. */
function getCause(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return getReason(cause ?? error);
}
