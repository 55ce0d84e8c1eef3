import { Buffer } from 'node:buffer';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative, sep } from 'node:path';
import { build, formatMessages, stop, transform } from 'esbuild';
import { bundlesFolder, digestOf, entryFile, OWN_SOURCES, recordFile, sourceOf } from './bundle.mjs';
import { LaunchError } from './errors.mjs';

const TARGET = 'node20';
/** Packages that load native code or files from their own folder. */
const EXTERNAL = ['sharp', '@pulumi/*'];
/** The name that esbuild gives to the entry. */
const ENTRY = 'main.cjs';
const DAY_MS = 86_400_000;

/**
 * Compiles a command's source with everything that it imports, and caches the result for the next start.
 * @returns {Promise<string>} entry file of the bundle
 */
export async function buildBundle(root, command, modules) {
  const { files, sources } = await compile(root, command, modules);
  const paths = [...sources.keys()].sort();
  const digest = digestOf(modules, paths, (path) => sources.get(path));
  try {
    const folder = bundlesFolder(root, command);
    mkdirSync(folder, { recursive: true });
    const entry = keep(files, folder, digest);
    writeWhole(recordFile(root, command), JSON.stringify({ sources: paths, digest }));
    removeOld(folder);
    return entry;
  } catch (error) {
    if (error.code === undefined) throw error;
    const folder = mkdtempSync(join(tmpdir(), 'triton-serving-command-')); // node_modules may not be writable.
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
    return keep(files, folder, digest);
  }
}

/**
 * @returns the files of the bundle by name, and the content of each source by its path under `root`, as it was when it
 *   was compiled
 */
async function compile(root, command, modules) {
  const sources = new Map(OWN_SOURCES.map((path) => [path, readFileSync(join(root, path))]));
  // Part of the names of shared files, so that V8's cached code of a file is never used for another file of the same
  // name.
  const tools = digestOf(modules, OWN_SOURCES, (path) => sources.get(path)).slice(0, 8);
  try {
    const { outputFiles } = await build({
      entryPoints: { main: join(root, sourceOf(root, command)) },
      absWorkingDir: root,
      // Paths in the source maps are relative to this folder.
      outdir: root,
      outExtension: { '.js': '.cjs' },
      chunkNames: `[name]-[hash]-${tools}`,
      bundle: true,
      platform: 'node',
      target: TARGET,
      // Modules that are imported by `await import()` become separate files, which esbuild supports for the ES format
      // only.
      format: 'esm',
      splitting: true,
      // The CommonJS version of a package would offer only its default export to `await import()`.
      mainFields: ['module', 'main'],
      external: EXTERNAL,
      sourcemap: 'inline',
      sourcesContent: false,
      legalComments: 'none',
      write: false,
      logLevel: 'silent',
      plugins: [rememberSources(root, sources)],
    });
    const parts = await Promise.all(outputFiles.map(toCommonJs));
    return { files: new Map(parts.flat()), sources };
  } catch (error) {
    if (!Array.isArray(error.errors)) throw error;
    const messages = await formatMessages(error.errors, { kind: 'error', color: process.stderr.isTTY === true });
    throw new LaunchError(`${sourceOf(root, command)} cannot be compiled\n\n${messages.join('')}`);
  } finally {
    await stop();
  }
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

/** Converts a file to CommonJS, which starts faster and lets V8 cache its compiled code. */
async function toCommonJs({ path, text }) {
  const name = basename(path);
  const { code, map } = await transform(text, {
    format: 'cjs',
    platform: 'node',
    target: TARGET,
    // esbuild does not escape text in tagged templates, and a bundle must be ASCII.
    supported: { 'dynamic-import': false, 'template-literal': false },
    sourcemap: 'external',
    sourcesContent: false,
    legalComments: 'none',
    sourcefile: name,
  });
  return [
    [name, code],
    [`${name}.map`, map],
  ];
}

/**
 * Writes the files of a bundle, its entry last.
 * @returns the entry
 */
function keep(files, folder, digest) {
  const entry = entryFile(folder, digest);
  const place = (name) => (name.startsWith(ENTRY) ? entry + name.slice(ENTRY.length) : join(folder, name));
  for (const [name, content] of [...files].sort(([a], [b]) => a.startsWith(ENTRY) - b.startsWith(ENTRY))) {
    writeWhole(place(name), content);
  }
  return entry;
}

/** Writes a file atomically. A file with the same content stays and only gets the current time. */
function writeWhole(path, content) {
  const bytes = Buffer.from(content);
  if (existsSync(path) && readFileSync(path).equals(bytes)) return utimesSync(path, new Date(), new Date());
  const half = `${path}.${process.pid}`;
  writeFileSync(half, bytes);
  renameSync(half, path);
}

/** Deletes files that only bundles older than a day need. A younger bundle may be in use and still load files. */
function removeOld(folder) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const { mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? {};
    if (Date.now() - mtimeMs > DAY_MS) rmSync(path, { recursive: true, force: true });
  }
}
