import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, formatMessages, stop } from 'esbuild';
import { bundlesFolder, ENTRY, getDigest, getSource, OWN_SOURCES, recordFile } from './bundle.mjs';
import { LaunchError } from './errors.mjs';

/** How every bundle is built. */
export const BUNDLE = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  // Modules that are imported by `await import()` become separate files, so that a start reads only what it needs.
  format: 'esm',
  splitting: true,
  outExtension: { '.js': '.mjs' },
  // The CommonJS version of a package would offer only its default export to `await import()`.
  mainFields: ['module', 'main'],
  // Packages that load native code or files from their own folder, or start it as a program.
  external: ['sharp', 'esbuild', '@pulumi/*'],
  logLevel: 'silent',
};
const DAY_MS = 86_400_000;

/**
 * Compiles a command's source with everything that it imports, and caches the result for the next start.
 *
 * Each bundle is written to a new folder, and the record names the folder only when it is complete. So commands that
 * start together, or are killed, do not affect each other.
 * @returns {Promise<string>} entry file of the bundle
 */
export async function buildBundle(root, command, modules) {
  const { outputFiles, sources } = await compile(root, command);
  const writeFiles = (folder) => {
    for (const { path, contents } of outputFiles) writeFileSync(join(folder, basename(path)), contents);
    return join(folder, ENTRY);
  };
  try {
    const bundles = bundlesFolder(root, command);
    mkdirSync(bundles, { recursive: true });
    const folder = mkdtempSync(join(bundles, 'bundle-'));
    const entry = writeFiles(folder);
    const paths = [...sources.keys()].sort();
    const digest = getDigest(modules, paths, (path) => sources.get(path));
    const record = join(folder, 'record.json');
    writeFileSync(record, JSON.stringify({ folder: basename(folder), sources: paths, digest }));
    renameSync(record, recordFile(root, command)); // Atomic.
    removeOld(bundles);
    return entry;
  } catch (error) {
    if (error.code === undefined) throw error;
    return writeFiles(makeTemporaryFolder(root)); // node_modules may be read-only, or the disk full.
  }
}

/** @returns the files of the bundle, and the content of each source by its path under `root`, as it was compiled */
async function compile(root, command) {
  const sources = new Map(OWN_SOURCES.map((path) => [path, readFileSync(join(root, path))]));
  try {
    const { outputFiles } = await build({
      ...BUNDLE,
      entryPoints: { main: join(root, getSource(root, command)) },
      absWorkingDir: root,
      outdir: root,
      banner: { js: commonJsNames(root) },
      sourcemap: 'linked',
      sourceRoot: `${pathToFileURL(root).href}/`,
      sourcesContent: false,
      legalComments: 'none',
      write: false,
      plugins: [rememberSources(root, sources)],
    });
    return { outputFiles, sources };
  } catch (error) {
    if (!Array.isArray(error.errors)) throw error;
    const messages = await formatMessages(error.errors, { kind: 'error', color: process.stderr.isTTY === true });
    throw new LaunchError(`${getSource(root, command)} cannot be compiled\n\n${messages.join('')}`);
  } finally {
    await stop();
  }
}

/** Defines what ES modules lack and CommonJS packages need. Wherever a bundle is, its code sees scripts as its folder. */
function commonJsNames(root) {
  const directory = join(root, 'scripts');
  const from = JSON.stringify(join(directory, 'run.mjs'));
  return [
    `import { createRequire as __createRequire } from 'node:module';`,
    `const require = __createRequire(${from}), __dirname = ${JSON.stringify(directory)}, __filename = ${from};`,
  ].join(' ');
}

/** Reads the package's own files for esbuild, so that what is hashed is what is compiled. */
function rememberSources(root, sources) {
  return {
    name: 'remember-sources',
    setup: ({ onLoad }) =>
      onLoad({ filter: /./, namespace: 'file' }, ({ path }) => {
        const name = relative(root, path).split(sep).join('/');
        if (name.startsWith('node_modules/')) return undefined;
        const contents = readFileSync(path);
        sources.set(name, contents);
        return { contents, loader: 'default' };
      }),
  };
}

/** A folder for this process only, from which imports find the packages of `root`. */
function makeTemporaryFolder(root) {
  const folder = mkdtempSync(join(tmpdir(), 'triton-serving-command-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
  return folder;
}

/** Deletes bundles that are older than a day. Commands that run may still load files of younger ones. */
function removeOld(bundles) {
  for (const name of readdirSync(bundles)) {
    const path = join(bundles, name);
    try {
      if (Date.now() - statSync(path).mtimeMs > DAY_MS) rmSync(path, { recursive: true, force: true });
    } catch {
      // Another command deleted it, or will.
    }
  }
}
