// Entry point for Pulumi (`main` in Pulumi.yaml).
const { runTypeScript } = require('../../src/launch/typescript.cjs');

runTypeScript(module, __dirname, 'index.ts');
