import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The source of a command, relative to the root; undefined if the command does not exist. */
export const getSource = (root, command) =>
  ['scripts', 'tools'].map((folder) => `${folder}/${command}.ts`).find((file) => existsSync(join(root, file)));

/** Folder of a command's bundles. It is deleted with node_modules, because bundles contain packages from there. */
export const bundlesFolder = (root, command) =>
  join(root, 'node_modules', '.cache', 'triton-serving', 'commands', command);

/**
 * Records the folder of a command's current bundle, the paths of its sources, and their digest. Bundles contain the path
 * of `root`, so each working tree that shares node_modules has a record of its own.
 */
export const recordFile = (root, command) =>
  join(bundlesFolder(root, command), `${createHash('sha256').update(root).digest('hex').slice(0, 16)}.json`);

/** The file of a bundle that exports what the source of the command exports. */
export const ENTRY = 'main.mjs';

/** Files that determine how a bundle is built, besides the sources of the command. */
export const OWN_SOURCES = ['src/launch/build.mjs', 'tsconfig.json'];

/**
 * The entry file of a command's bundle, or undefined if the bundle does not match the content of its sources.
 * @param {string} modules digest of the installed node_modules
 */
export function findBundle(root, command, modules) {
  try {
    const { folder, sources, digest } = JSON.parse(readFileSync(recordFile(root, command), 'utf8'));
    const now = getDigest(modules, sources, (path) => readFileSync(join(root, path)));
    const entry = join(bundlesFolder(root, command), folder, ENTRY);
    return now === digest && existsSync(entry) ? entry : undefined;
  } catch {
    return undefined; // The bundle was never built, or a source is missing, which the build reports.
  }
}

/** The digest of everything that a bundle is built from. */
export function getDigest(modules, sources, read) {
  const hash = createHash('sha256').update(modules);
  for (const path of sources) {
    const content = read(path);
    hash.update(`\0${path}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}
