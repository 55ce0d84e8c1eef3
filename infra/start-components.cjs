// The components for Pulumi programs that installed this package; those with its sources import components.ts.
const { runTypeScript } = require('../src/launch/typescript.cjs');

runTypeScript(module, __dirname, 'components.ts');
