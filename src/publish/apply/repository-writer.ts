import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../../core/abort';
import { UserError } from '../../core/errors';
import { configFromText, configText } from '../../model/config-text';
import { ProblemList } from '../../core/problems';
import { servedVersions, stepModels, withServedVersions } from '../../model';
import { forEachLimited } from '../../core/pool';
import {
  checksumOfBytes,
  PreconditionFailed,
  type PutCondition,
  type S3Store,
  type StoredPlace,
  type UploadOptions,
  type Written,
} from '../../s3/store';
import { putGolden } from '../release/golden-object';
import { CONFIG_FILE, isReplaceable, modelOf, versionOf } from '../keys';
import { keptKey, PLACEHOLDER, type RepositoryLocation } from '../location';
import type { Lock } from '../lock';
import type { SeenRepository } from '../plan/snapshot';
import { checksumOf, objectsOf, type PlannedModel, type PlannedObject } from '../plan/plan';
import type { ReleasedModel, ReleasedObject } from '../release/release';
import type { WantedModel, WantedObject } from '../plan/desired';

/** Requests in flight; the store keeps to its number of connections. */
const AT_ONCE = 32;

/**
 * S3 tells times in whole seconds, and Triton does not load a model again whose files are not newer than when it loaded
 * them: of two configurations written within a second it may never see the second one.
 */
const NEXT_SECOND_MS = 1100;

export interface UploadProgress {
  /** Called as bytes leave: `bytes` more of `key`. */
  onBytes?: (key: string, bytes: number) => void;
  signal?: AbortSignal;
}

/** Writes to the repository in the bucket, each write under the condition that it is as it was seen. */
export class RepositoryWriter {
  /** What each object of the plan is like in the bucket by now. */
  readonly written = new Map<string, ReleasedObject>();
  /** When a configuration was last switched, by us or, for all we know, by somebody before us. */
  private switched = performance.now();
  /** Whatever was there when the writer was made was written before this. */
  private readonly opened = performance.now();

  constructor(
    private readonly store: S3Store,
    private readonly location: RepositoryLocation,
    private readonly lock: Lock,
    private readonly progress: UploadProgress = {},
  ) {}

  /** Uploads what lies in version folders. Of a model that has a configuration no server sees it before that names it. */
  async uploadVersions(models: readonly PlannedModel[]): Promise<void> {
    const objects = models.flatMap(({ objects }) =>
      objects.filter(({ object }) => versionOf(object.key) !== undefined),
    );
    // The large ones first: they take longest, and small ones fill the gaps.
    const order = [...objects].sort((a, b) => b.object.bytes - a.object.bytes);
    // Does not wait for a large upload when we are to end; the store is closed then.
    await abortable(
      forEachLimited(order, AT_ONCE, (planned) => this.write(planned)),
      this.progress.signal,
    );
    const leftovers = models.flatMap(({ leftovers }) => leftovers);
    if (leftovers.length > 0) await this.delete(leftovers);
  }

  /** Uploads the golden requests of models. Their names tell their content, so nothing is ever replaced. */
  async uploadGolden(models: readonly WantedModel[]): Promise<void> {
    await forEachLimited(models, AT_ONCE, async ({ golden }) => {
      if (golden !== undefined) await putGolden(this.store, this.location, golden);
    });
  }

  /**
   * Keeps a copy of what later releases may replace, so that this one can be restored from the bucket alone.
   * @param before of a model, what the release has of it now: of that there is a copy
   */
  async keepCopies(
    models: readonly PlannedModel[],
    before: (name: string) => ReleasedModel | undefined,
  ): Promise<void> {
    const replaceable = models
      .flatMap(objectsOf)
      .map(({ object }) => object)
      .filter(({ key }) => isReplaceable(key));
    await forEachLimited(replaceable, AT_ONCE, async (object) => {
      const checksum = (await checksumOf(object)) ?? '';
      if (before(modelOf(object.key))?.objects[object.key]?.checksum === checksum) return;
      const key = keptKey(this.location, checksum);
      const isThere = 'stored' in object.source && object.source.stored.some((place) => isHere(place, key));
      // With the checksum: a file that changed since it was taken is refused.
      const checked = checksum === '' ? object : { ...object, checksum };
      if (!isThere) await this.put(checked, key, { condition: { ifAbsent: true } });
    });
  }

  /** Switches one model over: what its configuration refers to, then the configuration. */
  async switchModel(planned: PlannedModel): Promise<void> {
    const { objects, config } = planned;
    const beside = objects.filter(({ object }) => versionOf(object.key) === undefined);
    for (const one of beside) await this.write(one);
    if (config.recent === true) await abortable(sinceThen(this.opened), this.progress.signal);
    await this.write(config);
    this.switched = performance.now();
  }

  /** Puts back what a release says of a model; without one there was no such model, and it has no configuration. */
  async restoreModel(name: string, released: ReleasedModel | undefined): Promise<void> {
    const present = new Map(
      (await this.store.list(`${this.location.prefix}/${name}/`)).map((object) => [object.key, object]),
    );
    const keys = Object.keys(released?.objects ?? {}).filter(isReplaceable);
    // The configuration first here: of old labels and a new configuration nobody has use.
    const config = `${name}/${CONFIG_FILE}`;
    if (!keys.includes(config)) {
      if (present.has(this.at(config))) await this.delete([config]);
      return;
    }
    for (const key of keys.sort((a, b) => Number(b === config) - Number(a === config))) {
      const wanted = released?.objects[key] as ReleasedObject;
      const there = present.get(this.at(key));
      if (there?.etag === wanted.etag) continue;
      const kept = await this.store.get(keptKey(this.location, wanted.checksum));
      if (kept === undefined) {
        throw new UserError(
          `${key} cannot be put back: its copy in ${keptKey(this.location, wanted.checksum)} is gone`,
          {
            hint: 'publish the model again',
          },
        );
      }
      if (key === config && there?.recent === true) await sinceThen(this.switched);
      this.lock.requireHeld();
      const condition = there === undefined ? ({ ifAbsent: true } as const) : { ifEtag: there.etag };
      await this.store.putBytes(this.at(key), kept.body, condition);
    }
  }

  /**
   * A record of what somebody else published, before any of it is changed: copies of the objects that can be replaced,
   * and a model as a release holds it.
   */
  async adopt(name: string, seen: SeenRepository): Promise<ReleasedModel> {
    const objects: Record<string, ReleasedObject> = {};
    let text = '';
    for (const [key, { bytes, etag }] of seen.objects) {
      if (modelOf(key) !== name) continue;
      objects[key] = { bytes, etag, checksum: '' };
      if (!isReplaceable(key)) continue;
      const found = await this.store.get(this.at(key));
      if (found === undefined || found.etag !== etag) throw raced(key);
      const { checksum } = await this.keepBytes(found.body);
      objects[key].checksum = checksum;
      if (key === `${name}/${CONFIG_FILE}`) text = found.body.toString('utf8');
    }
    const config = configFromText(text, new ProblemList(`${name}/${CONFIG_FILE}`));
    const versions = Object.keys(objects).flatMap((key) => versionOf(key) ?? []);
    const served = config === undefined ? [] : servedVersions(config, versions);
    if (config !== undefined && config.version_policy?.specific === undefined && served.length > 0) {
      // One that serves the newest version there is would serve what is uploaded before it is complete.
      const key = `${name}/${CONFIG_FILE}`;
      const body = Buffer.from(configText(withServedVersions(config, versions)));
      await this.keepBytes(body);
      this.lock.requireHeld();
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

  /** Takes objects out of the repository; with `keep` their bytes stay beside it, for a rollback. */
  async removeObjects(
    keys: readonly string[],
    { objects }: SeenRepository,
    { keep }: { keep: boolean },
  ): Promise<void> {
    const configs = keys.filter((key) => key === `${modelOf(key)}/${CONFIG_FILE}`);
    if (keep) {
      await forEachLimited(keys, AT_ONCE, async (key) => {
        const bytes = objects.get(key)?.bytes ?? 0;
        const checksum = objects.has(key) ? await this.store.checksum(this.at(key), bytes) : undefined;
        if (checksum === undefined) return; // It is gone already.
        await this.store.copy({ key: this.at(key) }, keptKey(this.location, checksum), { bytes, checksum });
      });
    }
    // What makes a folder a model goes first: no server that starts now finds half of one. One by one, in the order
    // given, which is ensembles first: within a request S3 has an order of its own.
    for (const config of configs) await this.delete([config]);
    await this.delete(keys.filter((key) => !configs.includes(key)));
  }

  async delete(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return;
    this.lock.requireHeld();
    await this.store.delete(keys.map((key) => this.at(key)));
  }

  /** What the release is to say of a published model; of versions no longer wanted what the bucket still has. */
  describe(
    planned: PlannedModel,
    seen: SeenRepository,
    before: ReleasedModel | undefined,
    pruned: ReadonlySet<string>,
  ) {
    const { model } = planned;
    const wanted = objectsOf(planned);
    const versions = new Set(wanted.map(({ object }) => versionOf(object.key)));
    const carried = Object.entries(before?.objects ?? {}).filter(
      ([key]) =>
        versionOf(key) !== undefined && !versions.has(versionOf(key)) && seen.objects.has(key) && !pruned.has(key),
    );
    const objects = [
      ...carried,
      ...wanted.map(({ object, etag, checksum }): [string, ReleasedObject] => [
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
      ...(weightKinds === undefined ? {} : { weightKinds }),
      ...(golden === undefined
        ? {}
        : { golden: { sha256: golden.sha256, bytes: golden.bytes, requests: golden.requests } }),
      objects: Object.fromEntries(objects.sort(([a], [b]) => (a < b ? -1 : 1))),
    } satisfies ReleasedModel;
  }

  /** What the release before has, if it is still that. */
  private known(key: string, etag: string | undefined, before: ReleasedModel | undefined): ReleasedObject | undefined {
    const known = before?.objects[key];
    return known?.checksum === '' || known?.etag !== etag ? undefined : known;
  }

  private async write(planned: PlannedObject): Promise<void> {
    const { object, action, etag } = planned;
    if (action === 'keep') return;
    this.progress.signal?.throwIfAborted();
    this.lock.requireHeld();
    const condition: PutCondition = etag === undefined ? { ifAbsent: true } : { ifEtag: etag };
    let sent = 0;
    const onBytes = (bytes: number): void => {
      this.progress.onBytes?.(object.key, bytes - sent);
      sent = bytes;
    };
    try {
      const done = await this.put(object, this.at(object.key), { condition, onBytes });
      onBytes(object.bytes);
      this.written.set(object.key, { bytes: object.bytes, ...done });
    } catch (error) {
      if (error instanceof PreconditionFailed) throw raced(object.key, error);
      throw error;
    }
  }

  /** Brings an object's bytes to a key, from wherever they are. */
  private put(object: WantedObject, key: string, options: Omit<UploadOptions, 'checksum'>): Promise<Written> {
    const { source, bytes, checksum } = object;
    if ('body' in source) return this.store.putBytes(key, source.body, options.condition);
    if ('stored' in source) return this.copyFrom(source.stored, key, object, options);
    const expected = checksum === undefined ? {} : { checksum };
    return this.store.putFile(key, { path: source.file, bytes }, { ...options, ...expected });
  }

  private async copyFrom(
    places: readonly StoredPlace[],
    key: string,
    object: WantedObject,
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
        if (error instanceof PreconditionFailed) throw error;
        last = error;
      }
    }
    throw new UserError(
      `${object.key} cannot be brought back: ${(last as Error | undefined)?.message ?? 'it was deleted'}`,
      {
        // Where it is not that the bytes are gone, S3's reason has a next step of its own.
        hint: (last instanceof UserError ? last.hint : undefined) ?? 'publish that version again from its files',
        cause: last,
      },
    );
  }

  private async keepBytes(body: Buffer): Promise<Written> {
    return this.store.putBytes(keptKey(this.location, checksumOfBytes(body)), body, { ifAbsent: true });
  }

  private at(key: string): string {
    return `${this.location.prefix}/${key}`;
  }
}

/** Waits until a second has passed since a moment of performance.now(). */
const sinceThen = (moment: number): Promise<void> => sleep(Math.max(0, moment + NEXT_SECOND_MS - performance.now()));

/** Keeps an object in the repository's folder, which Triton needs to take an empty repository for a directory. */
export async function ensurePlaceholder(store: S3Store, location: RepositoryLocation): Promise<void> {
  try {
    await store.putBytes(`${location.prefix}/${PLACEHOLDER.name}`, Buffer.from(PLACEHOLDER.text), { ifAbsent: true });
  } catch (error) {
    if (!(error instanceof PreconditionFailed)) throw error;
  }
}

/** Whether a place is this key of the bucket that is published to. */
const isHere = (place: StoredPlace, key: string): boolean => place.store === undefined && place.key === key;

const raced = (key: string, cause?: unknown): UserError =>
  new UserError(`${key}: somebody else wrote it while this publisher was running`, {
    hint: 'run it again to publish on top of what is there now',
    cause,
  });
