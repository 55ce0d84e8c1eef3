const { env } = require('node:process');
const { default: Sequencer } = require('@jest/test-sequencer');

/** Runs the test files in the order of MUTANTS_TESTS. */
module.exports = class extends Sequencer {
  sort(tests) {
    const order = JSON.parse(env.MUTANTS_TESTS ?? '[]');
    return [...tests].sort((one, other) => order.indexOf(one.path) - order.indexOf(other.path));
  }
};
