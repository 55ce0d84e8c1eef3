/* global __dirname, module, require */
// Where Pulumi comes in. It would compile TypeScript by the tsconfig.json of the folder that it is run in, which may be
// anybody's, so the pack is bundled here. Its types are checked with those of everything else (npm run check).
const { join } = require('node:path');
const { buildSync } = require('esbuild');

const [bundle] = buildSync({
  entryPoints: [join(__dirname, 'main.ts')],
  bundle: true,
  format: 'cjs',
  packages: 'external',
  platform: 'node',
  sourcemap: 'inline',
  write: false,
}).outputFiles;
module._compile(bundle.text, join(__dirname, 'main.js'));
