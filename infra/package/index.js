// Entry point of the package for Pulumi (PulumiPlugin.yaml).
const { join } = require('node:path');
const { loadTypeScript } = require('../../src/cli/typescript.cjs');

module.exports = loadTypeScript(join(__dirname, 'provider.ts'));
