// Where Pulumi comes in (Pulumi.yaml: main).
const { loadLater } = require('../scripts/launch/later.cjs');
const { runTypeScript } = require('../scripts/launch/typescript.cjs');

for (const name of ['typescript', '@npmcli/arborist']) loadLater(name, '@pulumi/pulumi');
runTypeScript(module, __dirname, 'main.ts');
