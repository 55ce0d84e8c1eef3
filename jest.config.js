const { availableParallelism } = require('node:os');

/**
 * Unit tests need only node_modules. Integration tests run real servers, and system tests do so for longer. The soak
 * tests repeat random cases. The tests of the specification run a model checker. End-to-end tests run real engines of Pulumi and Kubernetes.
 */
const common = {
  testEnvironment: 'node',
  transform: { '^.+\\.[jt]s$': ['@swc/jest', { jsc: { target: 'es2022' } }] },
  // These packages are ES modules only, which jest cannot load untransformed.
  transformIgnorePatterns: ['node_modules/(?!(@kubernetes/client-node|openid-client|oauth4webapi|jose)/)'],
  rootDir: __dirname,
};

module.exports = {
  // Ends a test that hangs, but not one that is slow: tests start servers, and a CI machine may stall for seconds.
  testTimeout: 300_000,
  // More workers than cores, because tests mostly wait for timers and servers. At most 8, because servers need memory.
  maxWorkers: Math.min(8, Math.ceil(1.5 * availableParallelism())),
  testSequencer: '<rootDir>/test/support/longest-first.cjs',
  projects: [
    {
      ...common,
      displayName: 'unit',
      testMatch: ['<rootDir>/test/unit/**/*.test.ts'],
      // Pulumi loads these packages to serialize functions of a program, which takes three times as long as loading
      // Pulumi itself. This package serializes no functions.
      moduleNameMapper: { '^(@npmcli/arborist|typescript)$': '<rootDir>/test/support/empty-module.ts' },
    },
    { ...common, displayName: 'integration', testMatch: ['<rootDir>/test/integration/**/*.test.ts'] },
    { ...common, displayName: 'system', testMatch: ['<rootDir>/test/system/**/*.test.ts'] },
    { ...common, displayName: 'soak', testMatch: ['<rootDir>/test/soak/**/*.test.ts'] },
    { ...common, displayName: 'spec', testMatch: ['<rootDir>/test/spec/**/*.test.ts'] },
    {
      ...common,
      displayName: 'e2e',
      testMatch: ['<rootDir>/test/{e2e,aws}/**/*.test.ts'],
    },
  ],
};
