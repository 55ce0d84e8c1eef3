import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { nextCommand } from '../core/next-command';
import { CONFIG_FILE } from '../model/paths';
import type { RepositoryLocation } from '../release/location';
import { configWithVersions, type Manifest } from '../release/manifest';
import { checksumOfBytes, PreconditionFailedError, type PutCondition, type S3Store } from '../s3/store';
import type { HeadFile } from './head-file';
import { getVersion } from './keys';
import { Releases } from './releases';

/** How the view is completed. */
export const REPAIR_VIEW = `complete them: ${nextCommand('rollback', '--repair')}`;

/** Times that the view is compared with head.json, while other publishers change both. */
const ROUNDS = 5;

/** What an object of the view should be. */
interface Desired {
  checksum: string;
  bytes: number;
  write: (condition: PutCondition) => Promise<unknown>;
}

/**
 * Writes the view of the current release: config.pbtxt, the files beside the versions, and files of versions that are
 * stored under other keys. So the prefix is an ordinary model repository for people and for servers without an agent;
 * agents never read the view. If a publisher is interrupted here, the next release or "rollback --repair" completes the
 * view. Objects that are neither in the view of this release nor in that of the one before stay.
 * @throws UserError if the place of a version has other bytes, of a release that was refused: no publisher may replace
 * the file of a version. The view of this model stays as it is.
 */
export async function repairView(head: HeadFile, store: S3Store, location: RepositoryLocation): Promise<void> {
  for (let round = 1; round <= ROUNDS; round += 1) {
    const { isDone, occupied } = await write(await Releases.read({ store, location }, head), store, location);
    if (!isDone) continue;
    if (occupied.length === 0) return;
    throw new UserError(`${occupied.join(', ')} still has the bytes of a refused release`, {
      hint: `no replica reads it; for other servers, delete it with npm run releases -- --prune when it is a day old; then ${REPAIR_VIEW}`,
    });
  }
}

/** @returns isDone: nothing was to be written, so the view was not older than head.json; occupied: places of versions */
async function write(
  releases: Releases,
  store: S3Store,
  location: RepositoryLocation,
): Promise<{ isDone: boolean; occupied: string[] }> {
  const { current } = releases;
  if (current === undefined) return { isDone: true, occupied: [] };
  const folder = `${location.prefix}/`;
  const desired = desiredView(current, store, folder);
  const { previous } = current;
  const before = previous === undefined ? undefined : await releases.read(previous);
  const ours = new Set(before === undefined ? [] : desiredView(before, store, folder).keys());
  const listed = await store.list(folder);
  const present = new Map(listed.map((object) => [object.key, object]));
  const due: string[] = [];
  const occupied: string[] = [];
  const modelOf = (key: string): string => key.slice(0, key.indexOf('/', folder.length));
  const isOccupied = (key: string): boolean => occupied.some((other) => modelOf(other) === modelOf(key));
  try {
    const isVersionFile = (key: string): boolean => getVersion(key.slice(modelOf(key).length + 1)) !== undefined;
    // A server may load a version as soon as its configuration is there.
    for (const versions of [true, false]) {
      const some = [...desired].filter(([key]) => isVersionFile(key) === versions);
      await forEachLimited(some, store.concurrency, async ([key, { bytes, checksum, write: put }]) => {
        const found = present.get(key);
        if (found?.bytes === bytes && (await store.checksum(key, bytes)) === checksum) return;
        if (versions && found !== undefined) return void occupied.push(key);
        if (!versions && isOccupied(key)) return;
        due.push(key);
        await put(found === undefined ? { ifAbsent: true } : { ifEtag: found.etag });
      });
    }
    const extraneous = listed.filter(
      ({ key }) => ours.has(key) && !desired.has(key) && !isVersionFile(key) && !isOccupied(key),
    );
    if (extraneous.length > 0) await store.delete(extraneous);
    return { isDone: due.length === 0 && extraneous.length === 0, occupied };
  } catch (error) {
    if (error instanceof PreconditionFailedError) return { isDone: false, occupied };
    throw error;
  }
}

function desiredView({ models }: Manifest, store: S3Store, folder: string): Map<string, Desired> {
  const desired = new Map<string, Desired>();
  for (const [name, model] of Object.entries(models)) {
    const config = Buffer.from(configWithVersions(model, model.served));
    const key = `${folder}${name}/${CONFIG_FILE}`;
    desired.set(key, {
      checksum: checksumOfBytes(config),
      bytes: config.byteLength,
      write: (condition) => store.putBytes(key, config, condition),
    });
    for (const { key, path, checksum, bytes, versionId } of model.files) {
      const to = `${folder}${name}/${path}`;
      if (key === to) continue;
      desired.set(to, {
        ...{ checksum, bytes },
        write: (condition) => store.copy({ key, versionId }, to, { bytes, checksum, condition }),
      });
    }
  }
  return desired;
}
