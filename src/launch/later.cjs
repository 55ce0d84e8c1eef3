// Pulumi's SDK loads a compiler and an installer of packages at its start, which takes longer than all the rest of it. It
// needs them to send functions elsewhere, which no program here does.
const Module = require('node:module');
const { dirname } = require('node:path');

/**
 * Lets a package that another one requires be loaded when something of it is used. Where it is not, nothing changes.
 * @param {string} name of the package, as `requirer` names it
 * @param {string} requirer the package that requires it
 */
exports.loadLater = (name, requirer) => {
  let path;
  try {
    path = require.resolve(name, { paths: [dirname(require.resolve(requirer))] });
  } catch {
    return; // The SDK does without it, or asks for it under another name by now.
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
        // What TypeScript's import helpers ask of every module.
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
