// For programs that other tools start (pulumi), which would compile TypeScript by their own rules and check types at
// each start. `npm run check` checks the types.
const { join } = require('node:path');
const { buildSync } = require('esbuild');

/**
 * Compiles a TypeScript file of this package with all files of the package that it imports, and runs it.
 * @param {NodeJS.Module} module the module to run it as
 * @param {string} folder of the file
 * @param {string} name of the file
 */
exports.runTypeScript = (module, folder, name) => {
  const [bundle] = buildSync({
    entryPoints: [join(folder, name)],
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
  module._compile(bundle.text, join(folder, name.replace(/\.ts$/, '.js')));
};
