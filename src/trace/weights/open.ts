import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../core/errors';
import { getReason } from '../../model/paths';
import { S3Store } from '../../s3/store';
import type { WeightsSource } from '../../model/weights-source';

/** Address of Hugging Face. HF_ENDPOINT sets a mirror, as in Hugging Face's own library. */
const HUB = 'https://huggingface.co';

const ATTEMPTS = 3;
const PAUSE_MS = 1000;

/**
 * Yields the bytes of a source, in order.
 * @param folder base of relative paths
 * @throws UserError if the source is missing or unreachable
 */
export async function* openSource(source: WeightsSource, folder: string): AsyncGenerator<Uint8Array> {
  if (source.kind === 'path') yield* readFile(resolve(folder, source.text));
  else if (source.kind === 's3') {
    const store = new S3Store({ bucket: source.bucket });
    try {
      yield* store.read(source.key);
    } finally {
      store.close();
    }
  } else if (source.kind === 'url') yield* download(source.text, {});
  else {
    const { HF_ENDPOINT: endpoint = HUB, HF_TOKEN: token } = process.env;
    const { repository, revision, file = '' } = source;
    const path = file.split('/').map(encodeURIComponent).join('/');
    const url = `${endpoint.replace(/\/+$/, '')}/${repository}/resolve/${revision}/${path}`;
    // fetch sends the token only to this host, not to the storage that the hub redirects to.
    yield* download(url, token === undefined || token === '' ? {} : { authorization: `Bearer ${token}` });
  }
}

async function* readFile(path: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(path) as AsyncIterable<Buffer>;
  } catch (error) {
    throw new UserError(`cannot read ${path}: ${getReason(error)}`, { hint: 'paths are relative to the model folder' });
  }
}

async function* download(url: string, headers: Record<string, string>): AsyncGenerator<Uint8Array> {
  const answer = await request(url, headers);
  try {
    if (answer.body !== null) yield* answer.body as unknown as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw new UserError(`the download of ${url} was interrupted: ${getCause(error)}`, {
      hint: 'run the command again',
      cause: error,
    });
  }
}

async function request(url: string, headers: Record<string, string>): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    let failure: UserError;
    try {
      const answer = await fetch(url, { headers });
      if (answer.ok) return answer;
      await answer.body?.cancel();
      failure = refused(url, answer.status);
      if (answer.status < 500 && answer.status !== 429) throw failure;
    } catch (error) {
      if (error instanceof UserError) throw error;
      failure = new UserError(`cannot reach ${url}: ${getCause(error)}`, {
        hint: 'check the address and the network; HF_ENDPOINT names a mirror of Hugging Face',
        cause: error,
      });
    }
    if (attempt === ATTEMPTS) throw failure;
    await sleep(PAUSE_MS * attempt);
  }
}

function refused(url: string, status: number): UserError {
  const hint =
    status === 401 || status === 403
      ? 'for a private or gated repository of Hugging Face, set HF_TOKEN'
      : status === 404
        ? 'check the address, the revision and the name of the file'
        : 'try again later';
  return new UserError(`cannot download ${url}: the server answered ${status}`, { hint });
}

/** Returns the reason in the cause of a fetch error, because the error itself only says that fetch failed. */
function getCause(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return getReason(cause ?? error);
}
