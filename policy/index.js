/* global __dirname, module, require */
// Entry point for Pulumi. Pulumi itself would compile TypeScript with the tsconfig.json of the folder that it runs in,
// which can belong to any project.
const { join } = require('node:path');
const { loadTypeScript } = require('../src/cli/typescript.cjs');

module.exports = loadTypeScript(join(__dirname, 'main.ts'));
