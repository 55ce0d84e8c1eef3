import { forEachLimited } from '../core/concurrency';
import { nextCommand } from '../core/next-command';
import { CONFIG_FILE } from '../model/paths';
import { FORMAT, FormatError, map, object, optional, OtherFormatError, parseObject, text } from '../release/format';
import { viewKey, type RepositoryLocation } from '../release/location';
import { getVersion, configWithVersions, type Manifest } from '../release/manifest';
import { checksumOfBytes, PreconditionFailedError, type PutCondition, type S3Store } from '../s3/store';
import type { HeadFile } from './head-file';
import { Releases } from './releases';

export const REPAIR_VIEW = `complete it: ${nextCommand('rollback', '--repair')}`;

/** Times that the view is compared with head.json, while other publishers change both. */
const ROUNDS = 5;

/** `PREFIX.releases/view.json`: what the publisher has written into the repository. */
interface View {
  /** The release of which all is written. Undefined while it is written. */
  release?: string | undefined;
  /** The checksum of each object, by its key; empty while it may be written or deleted. */
  objects: Record<string, string>;
}

interface Desired {
  checksum: string;
  write: (condition: PutCondition) => Promise<unknown>;
}

/**
 * Makes the repository an ordinary model repository of the current release, for people and for servers without an agent:
 * a config.pbtxt for each model, and copies of its files. Agents never read it. view.json names every object before it is
 * written, so that the next run knows what an interrupted one has left, and that objects of other tools stay.
 * @param options `current`: the release that head.json names, if it was just read; `isForced`: whether objects are written
 * again that view.json has
 */
export async function repairView(
  head: HeadFile,
  store: S3Store,
  location: RepositoryLocation,
  { current, isForced = false }: { current?: Manifest | undefined; isForced?: boolean } = {},
): Promise<void> {
  const read = (): Promise<Releases> => Releases.read({ store, location }, head);
  const folder = `${location.prefix}/`;
  // Keys at which anything may be: another run can restore what this run found, and its requests arrive later.
  const unsure = new Set<string>();
  for (let round = 1; round <= ROUNDS; round += 1) {
    try {
      const release = round === 1 && current !== undefined ? current : (await read()).current;
      const found = await readView(store, location);
      if (
        release === undefined ||
        (found?.view?.release === release.id && unsure.size === 0 && !(isForced && round === 1))
      )
        return;
      if (found?.view === undefined || (isForced && round === 1)) {
        const known = (await (await read()).readAll()).flatMap((one) => [...desiredView(one, store, folder).keys()]);
        for (const key of known) unsure.add(key);
      }
      await write(release, found, { store, location, unsure });
      unsure.clear();
    } catch (error) {
      if (!(error instanceof PreconditionFailedError)) throw error;
    }
  }
}

/** What view.json has; `view` is undefined if it is damaged. */
interface Found {
  view: View | undefined;
  etag: string;
}

async function readView(store: S3Store, location: RepositoryLocation): Promise<Found | undefined> {
  const found = await store.get(viewKey(location));
  if (found === undefined) return undefined;
  try {
    return { view: parseObject(found.body, viewKey(location), parseView), etag: found.etag };
  } catch (error) {
    if (!(error instanceof FormatError) || error instanceof OtherFormatError) throw error;
    return { view: undefined, etag: found.etag };
  }
}

/** @param options `unsure`: gets the keys that this run writes or deletes */
async function write(
  current: Manifest,
  found: Found | undefined,
  { store, location, unsure }: { store: S3Store; location: RepositoryLocation; unsure: Set<string> },
): Promise<void> {
  const folder = `${location.prefix}/`;
  const before = found?.view?.objects ?? {};
  const desired = desiredView(current, store, folder);
  const due = [...desired].filter(([key, { checksum }]) => unsure.has(key) || before[key] !== checksum);
  const gone = [...new Set([...Object.keys(before), ...unsure])].filter((key) => !desired.has(key));
  for (const key of [...due.map(([name]) => name), ...gone]) unsure.add(key);
  const present = new Map((await store.list(folder)).map((object) => [object.key, object]));
  const replace = async (view: View, condition: PutCondition): Promise<string> =>
    (await store.putBytes(viewKey(location), encodeView(view), condition)).etag;
  const etag = await replace(
    { objects: { ...before, ...Object.fromEntries([...unsure].map((key) => [key, ''])) } },
    found === undefined ? { ifAbsent: true } : { ifEtag: found.etag },
  );
  // A server may load a version as soon as its configuration is there.
  for (const versions of [true, false]) {
    const some = due.filter(([key]) => isOfVersion(key, folder) === versions);
    await forEachLimited(some, store.concurrency, async ([key, { write: put }]) => {
      const there = present.get(key);
      await put(there === undefined ? { ifAbsent: true } : { ifEtag: there.etag });
    });
  }
  await store.delete(gone.flatMap((key) => present.get(key) ?? []));
  const objects = Object.fromEntries([...desired].map(([key, { checksum }]) => [key, checksum]));
  await replace({ release: current.id, objects }, { ifEtag: etag });
}

const isOfVersion = (key: string, folder: string): boolean =>
  getVersion(key.slice(key.indexOf('/', folder.length) + 1)) !== undefined;

function desiredView({ models }: Manifest, store: S3Store, folder: string): Map<string, Desired> {
  const desired = new Map<string, Desired>();
  for (const [name, model] of Object.entries(models)) {
    const config = Buffer.from(configWithVersions(model, model.served));
    const key = `${folder}${name}/${CONFIG_FILE}`;
    desired.set(key, {
      checksum: checksumOfBytes(config),
      write: (condition) => store.putBytes(key, config, condition),
    });
    for (const { key: from, path, checksum, bytes } of model.files) {
      const to = `${folder}${name}/${path}`;
      desired.set(to, {
        checksum,
        write: (condition) => store.copy({ key: from }, to, { bytes, checksum, condition }),
      });
    }
  }
  return desired;
}

const parseView = object<View>({ release: optional(text()), objects: map(text()) });

const encodeView = (view: View): Buffer => Buffer.from(`${JSON.stringify({ format: FORMAT, ...view })}\n`);
