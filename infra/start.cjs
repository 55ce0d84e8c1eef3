// Entry point for Pulumi (`main` in Pulumi.yaml), and of this package for other Pulumi projects.
const { runTypeScript } = require('../src/launch/typescript.cjs');

runTypeScript(module, __dirname, 'index.ts');
