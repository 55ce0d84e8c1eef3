import { constants, promises as fs } from 'node:fs';
import { dirname, join } from 'node:path';
import { UserError } from '../core/errors';
import type { RepositoryModel } from './index';
import { CONFIG_FILE, exists, getReason } from './paths';

/** The properties of a model that an export needs. */
export type ExportedModel = Pick<RepositoryModel, 'name' | 'configText' | 'versions' | 'extraFiles'>;

export interface Exported {
  files: number;
  bytes: number;
  /** Models of the previous export that are no longer in the repository. */
  removed: string[];
}

/**
 * File in every exported folder that lists the models that the export wrote. Triton takes folders for models and
 * ignores files.
 */
const MARKER = '.export.json';

/** A server in a container runs as another user than the export. */
const READABLE_BY_ALL = 0o444;
const FILE_MODE = 0o644;
const FOLDER_MODE = 0o755;

/**
 * Makes `out` a model repository for Triton with `models`: config.pbtxt, version folders, extra files.
 * Each model is written to a temporary folder and then renamed into place, so that a server that has mounted `out`
 * never finds an incomplete model.
 * @param out absolute path; new, empty, or written by an earlier export
 * @throws UserError if `out` has files that no export wrote, or cannot be written
 */
export async function exportModels(models: readonly ExportedModel[], out: string): Promise<Exported> {
  const names = models.map(({ name }) => name);
  const before = await getModels(out, names);
  const removed = before.filter((name) => !names.includes(name));
  // Beside `out`, because Triton takes every folder inside `out` for a model.
  let aside = '';
  try {
    await fs.mkdir(dirname(out), { recursive: true });
    aside = await fs.mkdtemp(`${out}.partial-`);
    let files = 0;
    for (const model of models) files += await writeModel(model, join(aside, 'new', model.name));
    await makeFolder(out);
    // The marker is written first, so that the next run knows our models even if this run is interrupted.
    await writeMarker(out, [...names, ...removed]);
    for (const name of names) await replace(join(out, name), join(aside, 'new', name), join(aside, 'old', name));
    for (const name of removed) await fs.rm(join(out, name), { recursive: true, force: true });
    await writeMarker(out, names);
    return { files, bytes: models.reduce((sum, model) => sum + countBytes(model), 0), removed };
  } catch (error) {
    throw new UserError(`cannot export to ${out}: ${getReason(error)}`, { cause: error });
  } finally {
    if (aside !== '') await fs.rm(aside, { recursive: true, force: true });
  }
}

/**
 * Names of the models that an earlier export put into a folder.
 * @throws UserError if the folder has files but no list of models, or a model of `names` that is not in the list
 */
async function getModels(out: string, names: readonly string[]): Promise<string[]> {
  const entries = await fs.readdir(out).catch((error: unknown): string[] => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw new UserError(`cannot export to ${out}: ${getReason(error)}`, { cause: error });
  });
  if (entries.length === 0) return [];
  try {
    const { models } = JSON.parse(await fs.readFile(join(out, MARKER), 'utf8')) as Partial<Marker>;
    const isForeign = (name: string): boolean => names.includes(name) && models?.includes(name) !== true;
    if (Array.isArray(models) && !entries.some(isForeign)) return models;
  } catch {
    // A missing or damaged list is reported below.
  }
  throw new UserError(`${out} contains files that "npm run export" did not create; nothing was written`, {
    hint: 'choose a new or empty folder with --out DIR',
  });
}

interface Marker {
  models: string[];
}

/** @returns the number of files written */
async function writeModel({ name, configText, versions, extraFiles }: ExportedModel, folder: string): Promise<number> {
  await makeFolder(folder);
  const files = [...versions.flatMap((version) => version.files), ...extraFiles];
  for (const { path, key } of files) {
    await makeParents(folder, key);
    await place(path, join(folder, key)).catch((cause: unknown) => {
      throw new Error(`${name}/${key}: ${getReason(cause)}`, { cause });
    });
  }
  for (const { version, files: inVersion } of versions) {
    // S3 and tools like it store files only, so an ensemble's empty version folder gets a file.
    if (inVersion.length === 0) await writeText(folder, `${version}/.keep`, 'An empty version folder.\n');
  }
  await writeText(folder, CONFIG_FILE, configText);
  return files.length + 1;
}

/** Makes a hard link if possible, because weights are large; otherwise a copy. */
async function place(source: string, target: string): Promise<void> {
  const real = await fs.realpath(source); // A hard link to a symbolic link would be a symbolic link.
  const { mode } = await fs.stat(real);
  if ((mode & READABLE_BY_ALL) === READABLE_BY_ALL && (await linked(real, target))) return;
  await fs.copyFile(real, target, constants.COPYFILE_FICLONE);
  await fs.chmod(target, FILE_MODE);
}

/** Returns false across file systems, and on file systems without hard links. */
function linked(source: string, target: string): Promise<boolean> {
  return fs.link(source, target).then(
    () => true,
    () => false,
  );
}

async function writeText(folder: string, key: string, text: string): Promise<void> {
  await makeParents(folder, key);
  await fs.writeFile(join(folder, key), text);
  await fs.chmod(join(folder, key), FILE_MODE);
}

async function makeParents(folder: string, key: string): Promise<void> {
  const parts = key.split('/').slice(0, -1);
  for (const depth of parts.keys()) await makeFolder(join(folder, ...parts.slice(0, depth + 1)));
}

/** Sets the mode explicitly, because the user's umask may make the folder unreadable for the server. */
async function makeFolder(folder: string): Promise<void> {
  await fs.mkdir(folder, { recursive: true });
  await fs.chmod(folder, FOLDER_MODE);
}

async function replace(target: string, by: string, old: string): Promise<void> {
  if (await exists(target)) {
    await fs.mkdir(join(old, '..'), { recursive: true });
    await fs.rename(target, old);
  }
  await fs.rename(by, target);
}

async function writeMarker(out: string, models: readonly string[]): Promise<void> {
  const marker: Marker = { models: [...models].sort() };
  await writeText(out, `${MARKER}.new`, `${JSON.stringify(marker, null, 2)}\n`);
  await fs.rename(join(out, `${MARKER}.new`), join(out, MARKER));
}

function countBytes({ configText, versions, extraFiles }: ExportedModel): number {
  const files = [...versions.flatMap((version) => version.files), ...extraFiles];
  return files.reduce((sum, { bytes }) => sum + bytes, Buffer.byteLength(configText));
}
