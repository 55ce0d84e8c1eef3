import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { cachedDataVersionTag } from 'node:v8';
import { Script } from 'node:vm';
import { nameSources } from './stack-traces.mjs';

/** V8 takes back only what was compiled by its own version, with the same flags, on the same kind of processor. */
const CODE_SUFFIX = `.code-${cachedDataVersionTag()}`;

/**
 * Runs a bundle.
 * @param {string} entry its entry file
 * @param {boolean} isTypical whether the code that V8 compiles in this run is worth keeping for the next ones
 * @returns what the entry exports
 */
export function loadBundle(root, entry, isTypical) {
  const folder = dirname(entry);
  nameSources(root, folder);
  // For its code, a bundle is where its sources are, wherever it is kept.
  const directory = join(root, 'scripts');
  const requirePackage = createRequire(join(directory, 'run.mjs'));
  /** What V8 had to compile, by the file it is to be kept in. */
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

/** The function around the file's code, with what V8 compiled of it in an earlier run where that was kept. */
function compile(path, compiled) {
  // Bundles are ASCII; this spares Node the look at each byte.
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

/** Only the functions that ran are in it: what is made at the end of a run serves the next one best. */
function keepCode(path, script) {
  try {
    const half = `${path}.${process.pid}`;
    writeFileSync(half, script.createCachedData());
    renameSync(half, path);
  } catch {
    // The next start is as slow as this one, no more.
  }
}
