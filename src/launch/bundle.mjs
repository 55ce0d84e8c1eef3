import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The source of a command, relative to the root; undefined if the command does not exist. */
export const sourceOf = (root, command) =>
  ['scripts', 'tools'].map((folder) => `${folder}/${command}.ts`).find((file) => existsSync(join(root, file)));

/** Folder of the compiled commands. It is deleted with node_modules, because bundles contain packages from there. */
const commandsFolder = (root) => join(root, 'node_modules', '.cache', 'triton-serving', 'commands');

/** Folder with the files of all bundles of a command. Bundles share files with the same content. */
export const bundlesFolder = (root, command) => join(commandsFolder(root), command);

/** Records the sources of the newest bundle of a command, and its digest. */
export const recordFile = (root, command) => join(commandsFolder(root), `${command}.json`);

/** The file that exports what the source of the command exports. The other files of the bundle are beside it. */
export const entryFile = (folder, digest) => join(folder, `main-${digest}.cjs`);

/** Files that determine how a bundle is built and run, besides the sources of the command. */
export const OWN_SOURCES = ['src/launch/build.mjs', 'src/launch/load.mjs', 'tsconfig.json'];

/**
 * The entry file of a command's bundle, or undefined if the bundle does not match the content of its sources.
 * @param {string} modules digest of the installed node_modules
 */
export function findBundle(root, command, modules) {
  try {
    const { sources, digest } = JSON.parse(readFileSync(recordFile(root, command), 'utf8'));
    const entry = entryFile(bundlesFolder(root, command), digest);
    const now = digestOf(modules, sources, (path) => readFileSync(join(root, path)));
    return now === digest && existsSync(entry) ? entry : undefined;
  } catch {
    return undefined; // The bundle was never built, or a source is missing, which the build reports.
  }
}

/** The digest of everything that a bundle is built from, which names the bundle. */
export function digestOf(modules, sources, read) {
  const hash = createHash('sha256').update(modules);
  for (const path of sources) {
    const content = read(path);
    hash.update(`\0${path}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex').slice(0, 32);
}
