// Where Pulumi comes in (Pulumi.yaml: main).
const { runTypeScript } = require('../scripts/launch/typescript.cjs');

runTypeScript(module, __dirname, 'main.ts');
