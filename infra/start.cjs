// Entry point for Pulumi (`main` in Pulumi.yaml).
const { skipDebugStacks } = require('../src/launch/debug-stacks.cjs');
const { loadLater } = require('../src/launch/later.cjs');
const { runTypeScript } = require('../src/launch/typescript.cjs');

skipDebugStacks();
for (const name of ['typescript', '@npmcli/arborist']) loadLater(name, '@pulumi/pulumi');
runTypeScript(module, __dirname, 'index.ts');
