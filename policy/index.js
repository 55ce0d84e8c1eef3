/* global __dirname, module, require */
// Where Pulumi comes in. It would compile TypeScript by the tsconfig.json of the folder that it is run in, which may be
// anybody's.
const { runTypeScript } = require('../src/launch/typescript.cjs');

runTypeScript(module, __dirname, 'main.ts');
