import { randomBytes } from 'node:crypto';
import { forEachLimited } from '../../core/concurrency';
import { UserError } from '../../core/errors';
import { FORMAT } from '../../release/format';
import { encodeHead } from '../../release/head';
import { archiveKey, formatLocation, headKey, releaseKey } from '../../release/location';
import { encodeManifest, sha256Hex, type Manifest, type ReleasedFile } from '../../release/manifest';
import { checksumOfBytes } from '../../s3/store';
import type { ApplyOptions } from '../apply/options';
import { isUnfinished } from '../apply/intent';
import { recover } from '../apply/recover';
import { WaitForLock } from '../apply/wait-for-lock';
import { CONFIG_FILE, getModelName, getVersion, isTraceRecord } from '../keys';
import { Lock, NO_INTENT, ourName } from '../lock';
import { findDrift, readSnapshot, type RepositorySnapshot } from '../plan/snapshot';
import { releaseIds, type CurrentRelease, type ReleasedModel, type ReleasedObject } from '../release/release';
import { manifestConfig } from './config-texts';
import { readFormat } from './mode';
import { newId } from './new-id';

/**
 * Turns a repository that publishers changed under a lock into one for agents: waits for the lock, undoes what a killed
 * publisher had begun, writes a manifest of format 3 for the current release, and then head.json. From then on earlier
 * versions of this tool refuse the repository. The objects stay where they are, so servers without an agent go on reading
 * it. Earlier releases are not retained, because their objects may have been replaced in place.
 * @param check called before anything is written; throws an error if the repository should not be migrated
 * @returns whether this call did it; false if another one has, or there is no release
 */
export async function migrate(
  options: ApplyOptions,
  check?: (seen: RepositorySnapshot) => Promise<void>,
): Promise<boolean> {
  const { store, location } = options;
  const waiting = new WaitForLock(options);
  for (;;) {
    options.signal?.throwIfAborted();
    // Another publisher may have migrated it while this one waited, or migrates it during this read.
    const isMigrated = async (): Promise<boolean> => (await readFormat(store, location)) === FORMAT;
    if (await isMigrated()) return false;
    const seen = await readSnapshot(store, location).catch(async (error: unknown) => {
      if (await isMigrated()) return undefined;
      throw error;
    });
    if (seen === undefined) return false;
    if (await waiting.isHeld(seen)) continue;
    await check?.(seen);
    if (isUnfinished(seen.lock.unfinished)) {
      // Replicas with an agent load the release by themselves.
      await recover(seen, { ...options, replicas: undefined });
      continue;
    }
    if (seen.head === undefined) return false;
    const lock = await Lock.take(store, location, seen.lock, NO_INTENT);
    if (lock === undefined) continue;
    try {
      await rewrite(seen.head, lock, { ...options, store: store.withLease(lock) });
      return true;
    } finally {
      await lock.release();
    }
  }
}

/**
 * For a migration before replicas have agents: those serve exactly the release, while other servers serve whatever is
 * under the prefix.
 * @throws UserError if that is not the same
 */
export async function requireMigratable(
  seen: RepositorySnapshot,
  { store, location }: Pick<ApplyOptions, 'store' | 'location'>,
): Promise<void> {
  const { head, lock, objects } = seen;
  const where = formatLocation(location);
  const refuse = (reason: string, hint: string): never => {
    throw new UserError(`cannot migrate ${where}: ${reason}`, { hint });
  };
  if (isUnfinished(lock.unfinished)) {
    refuse(
      'an earlier publisher was interrupted',
      'run npm run sync-models without --migrate, which undoes its changes',
    );
  }
  if (head === undefined && (await releaseIds(store, location)).length > 0) {
    refuse(
      'it has releases, but the pointer to the current one is missing',
      `restore s3://${store.bucket}/${headKey(location)}`,
    );
  }
  const released = head?.release.models ?? {};
  const others = [...objects.keys()]
    .filter((key) => key === `${getModelName(key)}/${CONFIG_FILE}`)
    .map(getModelName)
    .filter((model) => !Object.hasOwn(released, model));
  if (others.length > 0) {
    refuse(
      `these models are in no release: ${others.join(', ')}`,
      'replicas with an agent would not serve them: publish them, or delete their objects',
    );
  }
  const [drift, ...more] = await findDrift(seen, store, location);
  if (drift !== undefined) {
    refuse(
      `the bucket differs from its release: ${drift}${more.length === 0 ? '' : `, and ${more.length} more`}`,
      'npm run status lists the differences; npm run sync-models without --migrate repairs them',
    );
  }
}

async function rewrite({ release, etag }: CurrentRelease, lock: Lock, options: ApplyOptions): Promise<void> {
  const { store, location, onStage } = options;
  const models: Manifest['models'] = {};
  for (const [name, model] of Object.entries(release.models)) models[name] = await convert(name, model, options);
  const { commit, message, notAsked } = release;
  const manifest: Manifest = {
    id: newId(),
    createdAt: new Date().toISOString(),
    base: 0,
    origin: `migration of release ${release.id}`,
    by: ourName(),
    ...{ commit, message, notAsked },
    // No trial of it is ever asked for.
    trialKey: sha256Hex(randomBytes(24)),
    models,
  };
  const body = encodeManifest(manifest);
  options.signal?.throwIfAborted();
  await store.putBytes(releaseKey(location, manifest.id), body, { ifAbsent: true });
  await lock.confirm();
  const head = {
    generation: 1,
    release: manifest.id,
    manifestSha256: sha256Hex(body),
    retained: [manifest.id],
    sweptBefore: new Date(0).toISOString(),
    writer: manifest.id,
  };
  await store.urgent().putBytes(headKey(location), encodeHead(head), { ifEtag: etag });
  onStage?.(`migrated release ${release.id} for agents, as ${manifest.id}; earlier releases are no longer retained`);
}

async function convert(name: string, model: ReleasedModel, options: ApplyOptions): Promise<Manifest['models'][string]> {
  const { served, composedOf, weights, weightKinds, golden } = model;
  const objects = Object.entries(model.objects).filter(([key]) => {
    const version = getVersion(key);
    return !isTraceRecord(key) && (version === undefined || served.includes(version));
  });
  const configKey = `${name}/${CONFIG_FILE}`;
  const files: ReleasedFile[] = [];
  await forEachLimited(
    objects.filter(([key]) => key !== configKey),
    options.store.concurrency,
    async ([key, object]) => {
      options.signal?.throwIfAborted();
      files.push(await convertFile(name, key, object, options));
    },
  );
  const config = await readConfig(configKey, model.objects[configKey]?.checksum ?? '', options);
  return {
    ...{ served, composedOf, weights, weightKinds, golden },
    config: manifestConfig(config.toString('utf8')),
    files: files.sort((a, b) => (a.path < b.path ? -1 : 1)),
  };
}

/**
 * The config.pbtxt of the release. Another program may have replaced it.
 * @param checksum empty if the release does not name it
 */
async function readConfig(key: string, checksum: string, { store, location }: ApplyOptions): Promise<Buffer> {
  for (const place of [`${location.prefix}/${key}`, archiveKey(location, checksum)]) {
    const body = (await store.get(place))?.body;
    if (body !== undefined && (checksum === '' || checksumOfBytes(body) === checksum)) return body;
  }
  throw missing(key);
}

/**
 * Files beside the versions, which earlier publishers replaced in place, and objects without a version id are copied to
 * keys by content.
 */
async function convertFile(
  name: string,
  key: string,
  { bytes, checksum: known, versionId }: ReleasedObject,
  { store, location }: ApplyOptions,
): Promise<ReleasedFile> {
  const path = key.slice(name.length + 1);
  const there = `${location.prefix}/${key}`;
  const checksum = known === '' ? await store.checksum(there, bytes) : known;
  if (checksum === undefined) throw missing(key);
  if (getVersion(key) !== undefined && versionId !== undefined) return { path, key: there, versionId, bytes, checksum };
  const copy = archiveKey(location, checksum);
  const kept = await store.lookUp(copy, bytes);
  const isKept = kept?.checksum === checksum && kept.versionId !== undefined;
  const condition = kept === undefined ? ({ ifAbsent: true } as const) : { ifEtag: kept.etag };
  const written = isKept ? kept : await store.copy({ key: there }, copy, { bytes, checksum, condition });
  if (written.versionId !== undefined) return { path, key: copy, versionId: written.versionId, bytes, checksum };
  throw new UserError(`bucket ${store.bucket} does not keep versions of objects`, {
    hint: 'turn on versioning of the bucket: a release for agents names the version of each object',
  });
}

const missing = (key: string): UserError =>
  new UserError(`cannot migrate the current release: the released ${key} is missing in the bucket`, {
    hint: 'restore that object, or publish the model again with --triton before its pods get an agent',
  });
