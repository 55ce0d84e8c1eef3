import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The source of a command, below the root; undefined where there is no such command. */
export const sourceOf = (root, command) =>
  ['scripts', 'tools'].map((folder) => `${folder}/${command}.ts`).find((file) => existsSync(join(root, file)));

/** Where the compiled commands are kept; gone with node_modules, whose packages they contain. */
const commandsFolder = (root) => join(root, 'node_modules', '.cache', 'triton-serving', 'commands');

/** Folder of all files of a command's bundles; they share those whose content is the same. */
export const bundlesFolder = (root, command) => join(commandsFolder(root), command);

/** Tells of which sources the newest bundle of a command was made, and its digest. */
export const recordFile = (root, command) => join(commandsFolder(root), `${command}.json`);

/** The file that exports what the source of the command exports. The other files of the bundle are beside it. */
export const entryFile = (folder, digest) => join(folder, `main-${digest}.cjs`);

/** Files that decide how a bundle is made and run, besides the sources of the command. */
export const OWN_SOURCES = ['src/launch/build.mjs', 'src/launch/load.mjs', 'tsconfig.json'];

/**
 * The entry file of a command's bundle if that is up to date, by the content of its sources, or undefined.
 * @param {string} modules digest of what is in node_modules
 */
export function findBundle(root, command, modules) {
  try {
    const { sources, digest } = JSON.parse(readFileSync(recordFile(root, command), 'utf8'));
    const entry = entryFile(bundlesFolder(root, command), digest);
    const now = digestOf(modules, sources, (path) => readFileSync(join(root, path)));
    return now === digest && existsSync(entry) ? entry : undefined;
  } catch {
    return undefined; // Never made, or a source is gone: the build tells.
  }
}

/** Names a bundle by all that it is made of. */
export function digestOf(modules, sources, read) {
  const hash = createHash('sha256').update(modules);
  for (const path of sources) {
    const content = read(path);
    hash.update(`\0${path}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex').slice(0, 32);
}
