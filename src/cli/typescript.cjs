// For the commands of a clone, and for programs that other tools start (pulumi), which would compile TypeScript by their
// own rules and check types at each start. `npm run check` checks the types.
const Module = require('node:module');
const { dirname } = require('node:path');
const { buildSync } = require('esbuild');

/**
 * Compiles a TypeScript file of this package with all files of the package that it imports, and runs it.
 * @param {string} file
 * @returns what the file exports
 */
exports.loadTypeScript = (file) => {
  const outfile = file.replace(/\.ts$/, '.js'); // Not written.
  const [bundle] = buildSync({
    entryPoints: [file],
    outfile,
    bundle: true,
    format: 'cjs',
    packages: 'external',
    platform: 'node',
    target: 'node20',
    sourcemap: 'inline',
    sourcesContent: false,
    logLevel: 'error',
    write: false,
  }).outputFiles;
  const loaded = new Module(file);
  loaded.paths = Module._nodeModulePaths(dirname(file));
  loaded._compile(bundle.text, outfile);
  return loaded.exports;
};
