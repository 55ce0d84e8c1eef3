const { availableParallelism } = require('node:os');

/**
 * `unit` needs only node_modules. `real` runs commands on real servers; `npm test` leaves out its *.slow.test.ts. `stack`
 * runs engines of Pulumi and Kubernetes. `proof` has the specification with its model checker, and repeats random cases.
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
    ...['real', 'stack', 'proof'].map((level) => ({
      ...common,
      displayName: level,
      testMatch: [`<rootDir>/test/${level}/**/*.test.ts`],
    })),
  ],
};
