import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../../core/abort';
import { UserError } from '../../core/errors';
import { configFromText, configText } from '../../model/config-text';
import { ProblemList } from '../../core/problems';
import { servedVersions, stepModels, withServedVersions } from '../../model';
import { forEachLimited } from '../../core/concurrency';
import {
  checksumOfBytes,
  PreconditionFailedError,
  type ListedObject,
  type PutCondition,
  type SeenObject,
  type S3Store,
  type StoredObject,
  type UploadOptions,
  type Written,
} from '../../s3/store';
import { putGolden } from '../release/golden-object';
import { CONFIG_FILE, isReplaceable, getModelName, getVersion } from '../keys';
import { archiveKey, REPOSITORY_PLACEHOLDER, type RepositoryLocation } from '../../release/location';
import type { RepositorySnapshot } from '../plan/snapshot';
import { getObjects, type PlannedModel, type PlannedObject } from '../plan/plan';
import type { ReleasedModel, ReleasedObject } from '../release/release';
import { computeChecksum, type DesiredModel, type DesiredObject } from '../plan/desired';

/**
 * S3 reports times in whole seconds, and Triton reloads a model only if its files are newer than the last load. Of two
 * configurations written within one second, Triton may never see the second.
 */
const NEXT_SECOND_MS = 1100;

export interface WriterOptions {
  /** Called while bytes are sent: `bytes` more of `key`. */
  onBytes?: (key: string, bytes: number) => void;
  signal?: AbortSignal;
}

/** The archived copy of an object that should be restored was deleted. */
export class MissingCopyError extends UserError {
  override readonly name = 'MissingCopyError';
}

/** Writes to the repository in the bucket. Each write requires that the object is unchanged since it was read. */
export class RepositoryWriter {
  /** The objects of the plan that were written, by key. */
  readonly written = new Map<string, ReleasedObject>();
  /**
   * When a configuration was last activated. Initially the current time, because another publisher may have activated
   * one.
   */
  private switched = performance.now();
  /** Objects that existed when the writer was created were written before this time. */
  private readonly opened = performance.now();

  /** @param store needs the lock for its writes */
  constructor(
    private readonly store: S3Store,
    private readonly location: RepositoryLocation,
    private readonly options: WriterOptions = {},
  ) {}

  /**
   * Uploads the version folders. If a model has a configuration, no replica sees a version before the configuration
   * names it. Of a model without a configuration, uploads all other files too, because no configuration refers to them.
   */
  async uploadVersions(models: readonly PlannedModel[], seen: Pick<RepositorySnapshot, 'objects'>): Promise<void> {
    const objects = models.flatMap(({ objects, config }) =>
      objects.filter(({ object }) => getVersion(object.key) !== undefined || config.action === 'upload'),
    );
    // Large files first, because they take longest; small ones fill the gaps.
    const order = [...objects].sort((a, b) => b.object.bytes - a.object.bytes);
    // Do not wait for a large upload after an abort; closing the store ends it.
    await abortable(
      forEachLimited(order, this.store.concurrency, (planned) => this.write(planned)),
      this.options.signal,
    );
    const orphaned = models.flatMap((model) => model.orphaned);
    await this.delete(getSeen(orphaned, seen));
  }

  /**
   * Uploads the golden requests of models. Their keys contain the digest of their content, so none is ever replaced.
   */
  async uploadGolden(models: readonly DesiredModel[]): Promise<void> {
    await forEachLimited(models, this.store.concurrency, async ({ golden }) => {
      if (golden !== undefined) await putGolden(this.store, this.location, golden);
    });
  }

  /**
   * Archives objects that later releases may replace, so that this release can be restored from the bucket alone.
   * @param before returns the model in the current release, whose objects are archived already
   */
  async archiveCopies(
    models: readonly PlannedModel[],
    before: (name: string) => ReleasedModel | undefined,
  ): Promise<void> {
    const replaceable = models
      .flatMap(getObjects)
      .map(({ object }) => object)
      .filter(({ key }) => isReplaceable(key));
    const kept = new Set<string>();
    await forEachLimited(replaceable, this.store.concurrency, async (object) => {
      const checksum = (await computeChecksum(object)) ?? '';
      if (before(getModelName(object.key))?.objects[object.key]?.checksum === checksum) return;
      const key = archiveKey(this.location, checksum);
      if (kept.has(key)) return;
      if (checksum !== '') kept.add(key);
      const isThere = 'stored' in object.source && object.source.stored.some((place) => isHere(place, key));
      // With the checksum, a file that changed since it was hashed is rejected.
      const checked = checksum === '' ? object : { ...object, checksum };
      if (!isThere) await this.put(checked, key, { condition: { ifAbsent: true } });
    });
  }

  /**
   * Activates models, composing models before their ensembles. Each takes a round trip or more, so models of which none
   * is composed of another are activated together. If one of them fails, the others are still waited for.
   */
  async switchModels(models: readonly PlannedModel[]): Promise<void> {
    for (const group of independentGroups(models)) {
      await forEachLimited(group, this.store.concurrency, (planned) => this.switchModel(planned));
      for (const { config } of group) this.report(config, config.object.bytes);
    }
  }

  /** Writes the files that the configuration refers to, then the configuration. */
  private async switchModel({ objects, config }: PlannedModel): Promise<void> {
    const beside = objects.filter(({ object: { key } }) => getVersion(key) === undefined && !this.written.has(key));
    for (const one of beside) await this.write(one);
    if (config.recent === true) await abortable(sinceThen(this.opened), this.options.signal);
    // The progress of a group is reported in the order of its models, whichever is written first.
    await this.write(config, { silent: true });
    this.switched = performance.now();
  }

  /**
   * Restores a model to its state in a release, including versions that were replaced in place. If the release does not
   * have the model, deletes its configuration.
   */
  async restoreModel(name: string, released: ReleasedModel | undefined): Promise<void> {
    const present = new Map(
      (await this.store.list(`${this.location.prefix}/${name}/`)).map((object) => [object.key, object]),
    );
    await this.restoreVersions(name, released, present);
    const keys = Object.keys(released?.objects ?? {}).filter(isReplaceable);
    // Restore config.pbtxt first: old labels with the new configuration would be wrong.
    const config = `${name}/${CONFIG_FILE}`;
    if (!keys.includes(config)) {
      const there = present.get(this.at(config));
      if (there !== undefined) await this.delete([{ key: config, etag: there.etag }]);
      return;
    }
    for (const key of keys.sort((a, b) => Number(b === config) - Number(a === config))) {
      const desired = released?.objects[key] as ReleasedObject;
      const there = present.get(this.at(key));
      if (there?.etag === desired.etag) continue;
      const kept = await this.store.get(archiveKey(this.location, desired.checksum));
      if (kept === undefined) {
        throw new MissingCopyError(
          `cannot restore ${key}: its archived copy ${archiveKey(this.location, desired.checksum)} is missing`,
          {
            hint: 'publish the model again',
          },
        );
      }
      if (key === config && there?.recent === true) await sinceThen(this.switched);
      const condition = there === undefined ? ({ ifAbsent: true } as const) : { ifEtag: there.etag };
      await this.store.putBytes(this.at(key), kept.body, condition);
    }
  }

  private async restoreVersions(
    name: string,
    { objects = {} }: Partial<ReleasedModel> = {},
    present: ReadonlyMap<string, ListedObject>,
  ): Promise<void> {
    for (const [key, { bytes, checksum, etag }] of Object.entries(objects)) {
      if (isReplaceable(key) || present.get(this.at(key))?.etag === etag) continue;
      const copy = archiveKey(this.location, checksum);
      // Only objects that were replaced in place have a copy.
      if ((await this.store.checksum(copy, bytes)) !== checksum) continue;
      await sinceThen(this.switched);
      await this.store.copy({ key: copy }, this.at(key), { bytes, checksum });
    }
    const versions = new Set(Object.keys(objects).map(getVersion));
    const isAdded = (key: string): boolean =>
      getModelName(key) === name && objects[key] === undefined && !isReplaceable(key) && versions.has(getVersion(key));
    const written = [...this.written].map(([key, { etag }]) => ({ key, etag }));
    await this.delete(written.filter(({ key }) => isAdded(key)));
  }

  /**
   * Records a model that another tool published, before it is changed: archives its replaceable objects and returns the
   * model as a release holds it.
   */
  async recordUnmanaged(name: string, seen: RepositorySnapshot): Promise<ReleasedModel> {
    const objects: Record<string, ReleasedObject> = {};
    let text = '';
    for (const [key, { bytes, etag }] of seen.objects) {
      if (getModelName(key) !== name) continue;
      objects[key] = { bytes, etag, checksum: '' };
      if (!isReplaceable(key)) continue;
      const found = await this.store.get(this.at(key));
      if (found === undefined || found.etag !== etag) throw raced(key);
      const { checksum } = await this.keepBytes(found.body);
      objects[key].checksum = checksum;
      if (key === `${name}/${CONFIG_FILE}`) text = found.body.toString('utf8');
    }
    const config = configFromText(text, new ProblemList(`${name}/${CONFIG_FILE}`));
    const versions = Object.keys(objects).flatMap((key) => getVersion(key) ?? []);
    const served = config === undefined ? [] : servedVersions(config, versions);
    if (config !== undefined && config.version_policy?.specific === undefined && served.length > 0) {
      // A policy that serves the latest version would serve an uploaded version before it is complete. The new policy
      // names the present versions.
      const key = `${name}/${CONFIG_FILE}`;
      const body = Buffer.from(configText(withServedVersions(config, versions)));
      await this.keepBytes(body);
      const written = await this.store.putBytes(this.at(key), body, { ifEtag: objects[key]?.etag ?? '' });
      objects[key] = { bytes: body.byteLength, ...written };
    }
    return {
      served,
      digest: '',
      composedOf: config === undefined ? [] : stepModels(config),
      weights: {},
      objects,
    };
  }

  /** Deletes objects from the repository; with `keep`, archives them first for a rollback. */
  async removeObjects(
    keys: readonly string[],
    seen: Pick<RepositorySnapshot, 'objects'>,
    { keep }: { keep: boolean },
  ): Promise<void> {
    if (keep) await this.archive(keys, seen);
    const objects = getSeen(keys, seen);
    const isConfig = ({ key }: SeenObject): boolean => key === `${getModelName(key)}/${CONFIG_FILE}`;
    // Configurations first, so that a starting server finds no incomplete model. One by one in the given order, which
    // is ensembles first, because S3 does not keep the order within a request.
    for (const config of objects.filter(isConfig)) await this.delete([config]);
    await this.delete(objects.filter((object) => !isConfig(object)));
  }

  /** Archives objects of the repository. @returns the copies, with their full keys */
  async archive(keys: readonly string[], { objects }: Pick<RepositorySnapshot, 'objects'>): Promise<SeenObject[]> {
    const copies: SeenObject[] = [];
    await forEachLimited(keys, this.store.concurrency, async (key) => {
      const bytes = objects.get(key)?.bytes ?? 0;
      const checksum = objects.has(key) ? await this.store.checksum(this.at(key), bytes) : undefined;
      if (checksum === undefined) return; // The object was deleted already.
      const copy = archiveKey(this.location, checksum);
      const { etag } = await this.store.copy({ key: this.at(key) }, copy, { bytes, checksum });
      copies.push({ key: copy, etag });
    });
    return copies;
  }

  /** The model's objects that are in the bucket, without its configuration. */
  getPresent({ objects }: PlannedModel): SeenObject[] {
    return objects.flatMap(({ object: { key }, etag: before }) => {
      const etag = this.written.get(key)?.etag ?? before;
      return etag === undefined ? [] : [{ key, etag }];
    });
  }

  /** Deletes objects if they still have the ETag that was seen. */
  async delete(objects: readonly SeenObject[]): Promise<void> {
    await this.store.delete(objects.map(({ key, etag }) => ({ key: this.at(key), etag })));
  }

  /**
   * Returns a published model as the release holds it, including versions that are no longer desired but remain in the
   * bucket.
   */
  describe(
    planned: PlannedModel,
    seen: RepositorySnapshot,
    before: ReleasedModel | undefined,
    pruned: ReadonlySet<string>,
  ) {
    const { model } = planned;
    const desired = getObjects(planned);
    const versions = new Set(desired.map(({ object }) => getVersion(object.key)));
    const carried = Object.entries(before?.objects ?? {}).filter(
      ([key]) =>
        getVersion(key) !== undefined && !versions.has(getVersion(key)) && seen.objects.has(key) && !pruned.has(key),
    );
    const objects = [
      ...carried,
      ...desired.map(({ object, etag, checksum }): [string, ReleasedObject] => [
        object.key,
        this.written.get(object.key) ??
          this.known(object.key, etag, before) ?? {
            bytes: object.bytes,
            checksum: checksum ?? '',
            etag: etag ?? '',
          },
      ]),
    ];
    const { served, digest, composedOf, weights, weightKinds, golden } = model;
    return {
      served,
      digest,
      composedOf,
      weights,
      weightKinds,
      golden: golden && { sha256: golden.sha256, bytes: golden.bytes, requests: golden.requests },
      objects: Object.fromEntries(objects.sort(([a], [b]) => (a < b ? -1 : 1))),
    } satisfies ReleasedModel;
  }

  /** The object as the previous release holds it, if it is unchanged and has a checksum. */
  private known(key: string, etag: string | undefined, before: ReleasedModel | undefined): ReleasedObject | undefined {
    const known = before?.objects[key];
    return known?.checksum === '' || known?.etag !== etag ? undefined : known;
  }

  private report({ object, action }: PlannedObject, bytes: number): void {
    if (action !== 'keep') this.options.onBytes?.(object.key, bytes);
  }

  private async write(planned: PlannedObject, { silent = false } = {}): Promise<void> {
    const { object, action, etag } = planned;
    if (action === 'keep') return;
    this.options.signal?.throwIfAborted();
    const condition: PutCondition = etag === undefined ? { ifAbsent: true } : { ifEtag: etag };
    let sent = 0;
    const onBytes = (bytes: number): void => {
      if (!silent) this.report(planned, bytes - sent);
      sent = bytes;
    };
    try {
      const done = await this.put(object, this.at(object.key), { condition, onBytes });
      onBytes(object.bytes);
      this.written.set(object.key, { bytes: object.bytes, ...done });
    } catch (error) {
      if (error instanceof PreconditionFailedError) throw raced(object.key, error);
      throw error;
    }
  }

  /** Writes an object's bytes to a key: from memory, from a file or from other places in S3. */
  private put(object: DesiredObject, key: string, options: Omit<UploadOptions, 'checksum'>): Promise<Written> {
    const { source, bytes, checksum } = object;
    if ('body' in source) return this.store.putBytes(key, source.body, options.condition);
    if ('stored' in source) return this.copyFrom(source.stored, key, object, options);
    return this.store.putFile(key, { path: source.file, bytes }, { ...options, checksum });
  }

  private async copyFrom(
    places: readonly StoredObject[],
    key: string,
    object: DesiredObject,
    options: Omit<UploadOptions, 'checksum'>,
  ): Promise<Written> {
    const { bytes } = object;
    let last: unknown;
    for (const place of places) {
      try {
        const { store = this.store } = place;
        const checksum = object.checksum ?? (await store.checksum(place.key, bytes)) ?? '';
        return await this.store.copy(place, key, { ...options, bytes, checksum });
      } catch (error) {
        if (error instanceof PreconditionFailedError) throw error;
        last = error;
      }
    }
    throw new UserError(
      `cannot restore ${object.key}: ${(last as Error | undefined)?.message ?? 'the object was deleted'}`,
      {
        // Unless the bytes are gone, the error of S3 has its own hint.
        hint: (last instanceof UserError ? last.hint : undefined) ?? 'publish that version again from its files',
        cause: last,
      },
    );
  }

  private async keepBytes(body: Buffer): Promise<Written> {
    return this.store.putBytes(archiveKey(this.location, checksumOfBytes(body)), body, { ifAbsent: true });
  }

  private at(key: string): string {
    return `${this.location.prefix}/${key}`;
  }
}

/** Models without steps among `models` first, then the ensembles of these, and so on; each group in the given order. */
function independentGroups(models: readonly PlannedModel[]): PlannedModel[][] {
  const groups: PlannedModel[][] = [];
  const levels = new Map<string, number>();
  for (const planned of models) {
    const { name, composedOf } = planned.model;
    const level = Math.max(0, ...composedOf.map((step) => (levels.get(step) ?? -1) + 1));
    levels.set(name, level);
    (groups[level] ??= []).push(planned);
  }
  return groups;
}

/** Waits until a full second has passed since a time of performance.now(). */
const sinceThen = (moment: number): Promise<void> => sleep(Math.max(0, moment + NEXT_SECOND_MS - performance.now()));

/** Writes an object into the repository's folder, because Triton does not accept an empty prefix as a directory. */
export async function ensurePlaceholder(store: S3Store, location: RepositoryLocation): Promise<void> {
  try {
    await store.putBytes(
      `${location.prefix}/${REPOSITORY_PLACEHOLDER.name}`,
      Buffer.from(REPOSITORY_PLACEHOLDER.text),
      { ifAbsent: true },
    );
  } catch (error) {
    if (!(error instanceof PreconditionFailedError)) throw error;
  }
}

/** The keys that the snapshot has, with their ETags. */
export const getSeen = (keys: readonly string[], { objects }: Pick<RepositorySnapshot, 'objects'>): SeenObject[] =>
  keys.flatMap((key) => {
    const found = objects.get(key);
    return found === undefined ? [] : [{ key, etag: found.etag }];
  });

/** Whether a place is this key in the bucket that is published to. */
const isHere = (place: StoredObject, key: string): boolean => place.store === undefined && place.key === key;

const raced = (key: string, cause?: unknown): UserError =>
  new UserError(`cannot write ${key}: another program changed the object while this publisher was running`, {
    hint: 'run the command again; it then starts from the new content of the bucket',
    cause,
  });
