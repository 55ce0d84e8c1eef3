import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { cachedDataVersionTag } from 'node:v8';
import { Script } from 'node:vm';
import { nameSources } from './stack-traces.mjs';

/** V8 only accepts cached code of its own version, with the same flags, for the same kind of processor. */
const CODE_SUFFIX = `.code-${cachedDataVersionTag()}`;

/**
 * Runs a bundle.
 * @param {string} entry the entry file of the bundle
 * @param {boolean} isTypical whether the code that V8 compiles in this run is worth caching for later runs
 * @returns the exports of the entry
 */
export function loadBundle(root, entry, isTypical) {
  const folder = dirname(entry);
  nameSources(root, folder);
  // The code of a bundle sees scripts as its directory, wherever the bundle is stored.
  const directory = join(root, 'scripts');
  const requirePackage = createRequire(join(directory, 'run.mjs'));
  /** Scripts that V8 had to compile, by the path of their cache file. */
  const compiled = new Map();
  process.once('exit', (code) => {
    if (isTypical && code === 0) compiled.forEach((script, codeFile) => keepCode(codeFile, script));
  });
  const modules = new Map();
  const load = (path) => {
    const known = modules.get(path);
    if (known !== undefined) return known.exports;
    const module = { exports: {} };
    modules.set(path, module);
    compile(path, compiled)(module.exports, require, module, path, directory);
    return module.exports;
  };
  const require = (id) => (id.startsWith('./') ? load(join(folder, id)) : requirePackage(id));
  Object.assign(require, requirePackage);
  return load(entry);
}

/** The function that wraps the file's code. V8's code from an earlier run is used if it was cached. */
function compile(path, compiled) {
  // Bundles are ASCII; latin1 saves Node the check of each byte.
  const source = readFileSync(path, 'latin1');
  const codeFile = `${path}${CODE_SUFFIX}`;
  const cachedData = readIfThere(codeFile);
  const script = new Script(`(function (exports, require, module, __filename, __dirname) {\n${source}\n})`, {
    filename: path,
    lineOffset: -1,
    ...(cachedData === undefined ? {} : { cachedData }),
  });
  if (cachedData === undefined || script.cachedDataRejected === true) compiled.set(codeFile, script);
  return script.runInThisContext();
}

function readIfThere(path) {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/** Called at the end of a run, because the cached code contains only functions that have run. */
function keepCode(path, script) {
  try {
    const half = `${path}.${process.pid}`;
    writeFileSync(half, script.createCachedData());
    renameSync(half, path);
  } catch {
    // Without cached code, the next start is only as slow as this one.
  }
}
