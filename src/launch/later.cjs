// Pulumi's SDK loads a compiler and a package installer at startup, which takes longer than the rest of its startup.
// The SDK needs them to serialize functions, which no program here does.
const Module = require('node:module');
const { dirname } = require('node:path');

/**
 * Loads a package that another package requires only when the package is used. Does nothing if the package cannot be
 * resolved.
 * @param {string} name of the package, as `requirer` names it
 * @param {string} requirer the package that requires it
 */
exports.loadLater = (name, requirer) => {
  let path;
  try {
    path = require.resolve(name, { paths: [dirname(require.resolve(requirer))] });
  } catch {
    return; // The SDK no longer needs the package, or requires it under another name.
  }
  if (require.cache[path] !== undefined) return;
  const standIn = new Module(path);
  standIn.filename = path;
  standIn.loaded = true;
  let real;
  const load = () => {
    if (real === undefined) {
      if (require.cache[path] === standIn) delete require.cache[path];
      real = require(path);
    }
    return real;
  };
  standIn.exports = new Proxy(
    {},
    {
      get(_, key) {
        // TypeScript's import helpers read this from every module, so it must not load the package.
        if (key === '__esModule') return true;
        return key === 'default' ? (load().default ?? load()) : load()[key];
      },
      has: (_, key) => key in load(),
      ownKeys: () => Reflect.ownKeys(load()),
      getOwnPropertyDescriptor: (_, key) => {
        const found = Object.getOwnPropertyDescriptor(load(), key);
        return found && { ...found, configurable: true };
      },
    },
  );
  require.cache[path] = standIn;
};
