/* global __dirname, module, require */
// Entry point for Pulumi. Pulumi itself would compile TypeScript with the tsconfig.json of the folder that it runs in,
// which can belong to any project.
const { runTypeScript } = require('../src/launch/typescript.cjs');

runTypeScript(module, __dirname, 'main.ts');
