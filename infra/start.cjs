// Where Pulumi comes in (Pulumi.yaml: main).
const { skipDebugStacks } = require('../scripts/launch/debug-stacks.cjs');
const { loadLater } = require('../scripts/launch/later.cjs');
const { runTypeScript } = require('../scripts/launch/typescript.cjs');

skipDebugStacks();
for (const name of ['typescript', '@npmcli/arborist']) loadLater(name, '@pulumi/pulumi');
runTypeScript(module, __dirname, 'main.ts');
