// For what other programs start (pulumi), which would compile TypeScript by rules of their own and check its types at
// each start. Types are checked by "npm run check".
const { join } = require('node:path');
const { buildSync } = require('esbuild');

/**
 * Compiles a TypeScript file of this package with all of ours that it imports, and runs it.
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
