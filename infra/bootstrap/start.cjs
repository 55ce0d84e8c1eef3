// Entry point for Pulumi (`main` in Pulumi.yaml).
const { join } = require('node:path');
const { loadTypeScript } = require('../../src/cli/typescript.cjs');

module.exports = loadTypeScript(join(__dirname, 'index.ts'));
