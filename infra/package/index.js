// Entry point of the package for Pulumi (PulumiPlugin.yaml).
const { runTypeScript } = require('../../src/launch/typescript.cjs');

runTypeScript(module, __dirname, 'provider.ts');
