import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ContentStore, getReleaseUnits, getUnits, type ReadObject, type Unit } from '../agent/content-store';
import { UserError } from '../core/errors';
import { exportModels, type Exported, type ExportedModel } from '../model/export';
import { Releases, type Bucket } from '../publish/releases';
import { formatLocation } from '../release/location';
import { configWithVersions, type Manifest } from '../release/manifest';

/**
 * Writes a published release as an ordinary model repository. Its files are verified, and models that are there are
 * replaced when all files have arrived.
 * @param id of the release, or a unique part of it; `current`: the current one
 * @param out absolute path of the folder
 */
export async function exportRelease(
  bucket: Bucket,
  id: string,
  out: string,
  signal: AbortSignal,
): Promise<{ release: Manifest; exported: Exported }> {
  const releases = await Releases.read(bucket);
  const release = id === 'current' ? releases.current : await releases.find(id);
  if (release === undefined) {
    throw new UserError(`${formatLocation(bucket.location)} has no release yet`, { hint: 'npm run sync-models' });
  }
  // On the disk of `out`, so that its files need not be copied.
  mkdirSync(dirname(out), { recursive: true });
  const aside = mkdtempSync(`${out}.download-`);
  try {
    const content = new ContentStore(aside);
    const read: ReadObject = ({ key }, range, take) => bucket.store.stream(key, range, take);
    await content.fill(getReleaseUnits(release), { read, signal });
    const filesOf = (unit: Unit): ExportedModel['extraFiles'] =>
      unit.files.map(({ path, bytes }) => ({ path: join(content.path(unit), '..', path), key: path, bytes }));
    const exported = Object.entries(release.models).map(([name, model]): ExportedModel => {
      const units = getUnits(name, model);
      return {
        name,
        configText: configWithVersions(model, model.served),
        versions: units
          .filter(({ isVersion }) => isVersion)
          .map((unit) => ({ version: Number(unit.name), files: filesOf(unit) })),
        extraFiles: units.filter(({ isVersion }) => !isVersion).flatMap(filesOf),
      };
    });
    return { release, exported: await exportModels(exported, out) };
  } finally {
    rmSync(aside, { recursive: true, force: true });
  }
}
