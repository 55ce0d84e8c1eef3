// The components for Pulumi programs that installed this package; those with its sources import components.ts.
const { join } = require('node:path');
const { loadTypeScript } = require('../src/cli/typescript.cjs');

module.exports = loadTypeScript(join(__dirname, 'components.ts'));

// Node reads the names for `import` from this text. The line itself does nothing.
/* eslint no-constant-binary-expression: off, no-undef: off */
0 &&
  (module.exports = {
    Cluster,
    EncryptionKey,
    GpuNodes,
    ModelRepository,
    Network,
    PublisherRole,
    TritonAccess,
    TritonServer,
    cloudWatchLogsStatement,
  });
