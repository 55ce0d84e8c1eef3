const { availableParallelism } = require('node:os');

/** Unit tests need nothing but node_modules; integration tests run real servers, and the proofs in test/soak do so again
 * and again; end-to-end ones run real engines of Pulumi and Kubernetes. */
const common = {
  testEnvironment: 'node',
  transform: { '^.+\\.[jt]s$': ['@swc/jest', { jsc: { target: 'es2022' } }] },
  // These are ES modules only, which jest does not load as they are.
  transformIgnorePatterns: ['node_modules/(?!(@kubernetes/client-node|openid-client|oauth4webapi|jose)/)'],
  rootDir: __dirname,
};

module.exports = {
  // A test that hangs ends; one that is slow does not: servers are started in it, and machines stand still for seconds.
  testTimeout: 300_000,
  // More than there are cores, as tests wait: for timers, and half of the time for servers, which need memory.
  maxWorkers: Math.min(8, Math.ceil(1.5 * availableParallelism())),
  projects: [
    {
      ...common,
      displayName: 'unit',
      testMatch: ['<rootDir>/test/unit/**/*.test.ts'],
      // Pulumi loads them, at three times its own time, for functions that a program has it write down. None here has.
      moduleNameMapper: { '^(@npmcli/arborist|typescript)$': '<rootDir>/test/support/not-loaded.ts' },
    },
    { ...common, displayName: 'integration', testMatch: ['<rootDir>/test/integration/**/*.test.ts'] },
    { ...common, displayName: 'soak', testMatch: ['<rootDir>/test/soak/**/*.test.ts'] },
    { ...common, displayName: 'e2e', testMatch: ['<rootDir>/test/{e2e,aws}/**/*.test.ts'] },
  ],
};
