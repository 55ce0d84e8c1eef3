import { randomBytes } from 'node:crypto';
import { PartialFailureError } from '../../core/errors';
import type { RepositoryModel } from '../../model';
import { encodeManifest, sha256Hex, type Manifest, type ReleasedModel } from '../../release/manifest';
import type { S3Store } from '../../s3/store';
import { releaseKey, type RepositoryLocation } from '../../release/location';
import { HeadFile, type Base } from './head-file';
import { Trials, type TrialOptions } from './trials';
import { uploadModels } from './upload';

export interface PublishReleaseOptions extends Omit<TrialOptions, 'runId'> {
  store: S3Store;
  /** The same bucket. Its requests end within ten seconds, so that no commit is under way for long. */
  commitStore: S3Store;
  location: RepositoryLocation;
  onBytes?: (key: string, bytes: number) => void;
}

export interface PublishedRelease {
  id: string;
  /** Generation of head.json that names it first. */
  generation: number;
  /** Replicas that served it before it became the current release. */
  replicas: number;
}

/**
 * Publishes models: uploads what is missing, has every replica try the release, and makes it the current one. Models of
 * the current release that are not given stay in it.
 * @throws UserError and nothing has changed: the current release is the one before, and the replicas serve it
 * @throws PartialFailureError if that, or the success, is not certain
 */
export async function publishRelease(
  models: readonly RepositoryModel[],
  options: PublishReleaseOptions,
): Promise<PublishedRelease> {
  const { store, location, onBytes, onStage } = options;
  const head = new HeadFile(options.commitStore, location);
  const base = await head.read();
  const retained = await readRetained(head, base);
  onStage?.('upload');
  const uploaded = await uploadModels(models, { store, location, retained: [...retained.values()], onBytes });
  const before = base.head === undefined ? {} : (retained.get(base.head.release)?.models ?? {});
  return tryAndCommit({ ...before, ...uploaded }, head, base, options);
}

async function readRetained(head: HeadFile, { head: base }: Base): Promise<Map<string, Manifest>> {
  const read = (base?.retained ?? []).map(async (id) => [id, await head.readManifest(id)] as const);
  const found = await Promise.all(read);
  return new Map(found.flatMap(([id, manifest]) => (manifest === undefined ? [] : [[id, manifest] as const])));
}

async function tryAndCommit(
  models: Record<string, ReleasedModel>,
  head: HeadFile,
  base: Base,
  options: PublishReleaseOptions,
): Promise<PublishedRelease> {
  const { store, location } = options;
  const runId = newId();
  const secret = randomBytes(24).toString('base64url');
  const manifest: Manifest = {
    id: runId,
    createdAt: new Date().toISOString(),
    previous: base.head?.release,
    origin: 'sync-models',
    by: options.by,
    base: base.generation,
    trialKey: sha256Hex(secret),
    models,
  };
  const body = encodeManifest(manifest);
  const manifestSha256 = sha256Hex(body);
  await store.putBytes(releaseKey(location, manifest.id), body, { ifAbsent: true });
  const release = { id: manifest.id, manifestSha256, base: base.generation, secret };
  const trials = new Trials(release, { ...options, runId });
  try {
    const replicas = await trials.run();
    const generation = await head.replace(base, {
      release: manifest.id,
      manifestSha256,
      retained: [...(base.head?.retained ?? []), manifest.id],
      sweptBefore: base.head?.sweptBefore ?? new Date(0).toISOString(),
      writer: runId,
    });
    await trials.untilAcknowledged(generation);
    return { id: manifest.id, generation, replicas };
  } catch (error) {
    // Where the outcome is unknown, the replicas go on serving the release until the trials end by themselves.
    if (!(error instanceof PartialFailureError)) await trials.end();
    throw error;
  } finally {
    trials.stop();
  }
}

/** Ids sort by time. */
const newId = (): string => `${new Date().toISOString().replace(/[-:.]/g, '')}-${randomBytes(4).toString('hex')}`;
